// What a measuring process and the process that searches say to each other: messages over a socket, each one
// length, kind and a few fields. Both ends are of the same build, on the same machine.
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
  Case,    // id, canonical kernel, the same in a quick order, shape values, of each parameter how many copies
           // take
           // turns and whether it is the program's caller's: what candidates are checked against
  Forget,  // a case
  Compile, // id, kernel
  Run,     // id, case, time limit, the places of its parameters
  Ask,     // for Alive
  // From the worker.
  Ready,     // error
  CaseReady, // id, error
  Running,   // id: compiled, and about to be launched; again after each step
  Result,    // id, ok, seconds, error
  Alive,     // at once, whatever is being compiled or run
  Crashed    // id, signal: the last message
};

/// A message under way, or one that came: fields are written and read in the same order.
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

/// Writes all of it with one call where the socket has room. False if the other end is gone.
bool send_message(int socket, Message& message);

/// Takes messages off a socket as they arrive.
class MessageReader {
public:
  explicit MessageReader(int socket) : socket_(socket) {}
  enum class State { Message, Timeout, Closed };
  /// Waits for the next one; seconds < 0: as long as it takes.
  State wait(double seconds, std::optional<Message>& message);

private:
  int socket_;
  std::string pending_;
};

/// What the measuring program does: serves the socket until the other end closes it.
int run_measuring_worker(int socket);

} // namespace lathe::pipeline
