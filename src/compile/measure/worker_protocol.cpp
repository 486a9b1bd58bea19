#include "compile/measure/worker_protocol.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "lathe/error.hpp"

namespace lathe::pipeline {
namespace {
constexpr size_t kLength = sizeof(uint32_t);
}

Message::Message(WorkerMessage kind) : data_(kLength, '\0'), at_(kLength + 1) {
  data_.push_back(static_cast<char>(kind));
}

Message Message::received(std::string bytes) {
  Message m;
  m.data_ = std::string(kLength, '\0') + std::move(bytes);
  m.at_ = kLength + 1;
  return m;
}

WorkerMessage Message::kind() const { return static_cast<WorkerMessage>(data_.at(kLength)); }

Message& Message::add(int64_t value) {
  data_.append(reinterpret_cast<const char*>(&value), sizeof value);
  return *this;
}
Message& Message::add(double value) {
  data_.append(reinterpret_cast<const char*>(&value), sizeof value);
  return *this;
}
Message& Message::add(std::string_view text) {
  add(static_cast<int64_t>(text.size()));
  data_.append(text);
  return *this;
}

void Message::take(void* to, size_t bytes) {
  if (bytes > data_.size() - at_) throw InternalError("a message of the measuring process is cut short");
  std::memcpy(to, data_.data() + at_, bytes);
  at_ += bytes;
}
int64_t Message::integer() {
  int64_t value;
  take(&value, sizeof value);
  return value;
}
double Message::number() {
  double value;
  take(&value, sizeof value);
  return value;
}
std::string Message::text() {
  std::string text(std::min(static_cast<size_t>(integer()), data_.size() - at_), '\0');
  take(text.data(), text.size());
  return text;
}

std::string_view Message::bytes() {
  const auto length = static_cast<uint32_t>(data_.size() - kLength);
  std::memcpy(data_.data(), &length, kLength);
  return data_;
}

bool send_message(int socket, Message& message) {
  for (std::string_view left = message.bytes(); !left.empty();) {
    const ssize_t sent = ::send(socket, left.data(), left.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    left.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

MessageReader::State MessageReader::wait(double seconds, std::optional<Message>& message) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration<double>(std::min(std::max(seconds, 0.0), 1e6));
  for (;;) {
    uint32_t length = 0;
    if (pending_.size() >= kLength) {
      std::memcpy(&length, pending_.data(), kLength);
      if (pending_.size() >= kLength + length) {
        message = Message::received(pending_.substr(kLength, length));
        pending_.erase(0, kLength + length);
        return State::Message;
      }
    }
    int milliseconds = -1;
    if (seconds >= 0) {
      const auto left = std::chrono::duration<double, std::milli>(until - Clock::now()).count();
      milliseconds = static_cast<int>(std::clamp(left + 1, 0.0, 1e9));
    }
    pollfd waiting{socket_, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, milliseconds);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return State::Timeout;
    char chunk[1 << 16];
    const ssize_t got = ::recv(socket_, chunk, sizeof chunk, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return State::Closed;
    pending_.append(chunk, static_cast<size_t>(got));
  }
}

} // namespace lathe::pipeline
