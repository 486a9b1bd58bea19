// Turns errors that LLVM would print, or end the process over, into exceptions.
//
//   Guard guard;                          // for this thread, while it lives
//   context.setDiagnosticHandlerCallBack(note_diagnostic, &complaints);
//   passes.run(module);                   // throws FatalError where LLVM gives up
//
// LLVM is built without exceptions, so an exception that passes through its frames cleans up nothing there.
// The objects that LLVM was working on are in an undefined state. The caller must leak them: not use, not
// destroy.
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

/// While a Guard lives, report_fatal_error() and out of memory throw FatalError on its thread. On other
/// threads they behave as LLVM defines. The Guard has no effect if the program shares this LLVM, since then
/// its error handlers belong to the program.
class Guard {
public:
  Guard();
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
};

/// A diagnostic handler: keeps the first warning or error in the std::string at `complaint`. Without a
/// handler LLVM prints diagnostics, and exits at an error.
void note_diagnostic(const llvm::DiagnosticInfo* info, void* complaint);
void note_diagnostic(const llvm::DiagnosticInfo& info, void* complaint); // as older versions call it

} // namespace lathe::runtime
