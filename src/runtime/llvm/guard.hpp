// What LLVM would print or end the process over, made into exceptions.
//
//   Guard guard;                          // for this thread, while it lives
//   context.setDiagnosticHandlerCallBack(note_diagnostic, &complaints);
//   passes.run(module);                   // throws FatalError where LLVM gives up
//
// LLVM is built without exceptions, so nothing in its frames is taken down when one passes through: what it
// was working on is in no state to be used or destroyed, and must be abandoned.
#pragma once
#include <stdexcept>
#include <string>

namespace llvm {
class DiagnosticInfo;
}

namespace lathe::runtime {

class FatalError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// While it lives, report_fatal_error() and running out of memory throw FatalError on this thread; elsewhere
/// they do what LLVM does. Only where LLVM is this library's own: the handlers of an LLVM shared with the
/// program are the program's.
class Guard {
public:
  Guard();
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
};

/// A diagnostic handler: keeps the first warning or error in the std::string at `complaint`. Without one LLVM
/// prints them, and exits at an error.
void note_diagnostic(const llvm::DiagnosticInfo* info, void* complaint);
void note_diagnostic(const llvm::DiagnosticInfo& info, void* complaint); // as older versions call it

} // namespace lathe::runtime
