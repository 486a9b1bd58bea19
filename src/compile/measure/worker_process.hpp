// The measuring process on its owner's side: starting it, exchanging messages, ending it.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>

#include "compile/measure/worker_protocol.hpp"

namespace lathe::pipeline {

class WorkerProcess {
public:
  /// Starts lathe-measure. Throws Error(Device) saying why it can't.
  WorkerProcess();
  ~WorkerProcess(); // ends the process, whatever it is doing
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  bool send(Message& message) { return send_message(socket_, message); }
  /// Waits for the next message. Closed if the process is gone, or is stopped and does not answer.
  MessageReader::State wait(double seconds, std::optional<Message>& message);

private:
  struct Started {
    int socket;
    pid_t process;
    std::string folder;
  };
  static Started start();
  explicit WorkerProcess(Started started)
      : socket_(started.socket), process_(started.process), folder_(std::move(started.folder)),
        reader_(started.socket) {}

  int socket_;
  pid_t process_;
  std::string folder_; // for the process's temporary files
  MessageReader reader_;
};

} // namespace lathe::pipeline
