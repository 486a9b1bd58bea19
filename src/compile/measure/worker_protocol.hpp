// The messages between a measuring process and the process that searches, over a socket. A message is a
// length, a kind and a few fields. Both ends are of the same build, on the same machine.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::pipeline {

enum class WorkerMessage : uint8_t {
  // To the worker.
  Setup,   // device, cpu, threads, whether compiling and running overlap
  Case,    // id, canonical kernel, reference kernel, shape values; of each parameter the number of copies
           // that take turns, and whether the program's caller owns it. A case checks candidates.
  Forget,  // a case
  Compile, // id, kernel
  Run,     // id, case, time limit, the places of its parameters
  Ask,     // no fields; the answer is Alive
  // From the worker.
  Ready,     // error
  CaseReady, // id, error
  Running,   // id: compiled, and about to be launched; again after each step
  Result,    // id, ok, seconds, error
  Alive,     // no fields; sent at once, whatever is being compiled or run
  Crashed    // id, signal: the last message
};

/// A message to send, or a received one. Fields are written and read in the same order.
class Message {
public:
  explicit Message(WorkerMessage kind);
  static Message received(std::string bytes); // without the length

  WorkerMessage kind() const;
  Message& add(int64_t value);
  Message& add(double value);
  Message& add(std::string_view text);
  int64_t integer();
  double number();
  std::string text();
  /// Length, kind and fields, as they are sent.
  std::string_view bytes();

private:
  Message() = default;
  void take(void* to, size_t bytes);
  std::string data_; // four bytes of length, the kind, the fields
  size_t at_ = 0;
};

/// Writes the message, with one call if the socket has room. Returns false if the other end is gone.
bool send_message(int socket, Message& message);

/// Takes messages off a socket as they arrive.
class MessageReader {
public:
  explicit MessageReader(int socket) : socket_(socket) {}
  enum class State { Message, Timeout, Closed };
  /// Waits for the next message; seconds < 0: without a limit.
  State wait(double seconds, std::optional<Message>& message);

private:
  int socket_;
  std::string pending_;
};

/// The main function of the measuring program: serves the socket until the other end closes it.
int run_measuring_worker(int socket);

} // namespace lathe::pipeline
