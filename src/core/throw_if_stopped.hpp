// The end of a compilation that nobody wants any more.
#pragma once
#include <stop_token>

#include "lathe/error.hpp"

namespace lathe {

/// Error(Stopped) once CompileOptions::stop asks for it.
inline void throw_if_stopped(const std::stop_token& stop) {
  if (stop.stop_requested())
    throw Error(ErrorKind::Stopped, "compile: stopped, as CompileOptions::stop asked");
}

} // namespace lathe
