#include "runtime/llvm/guard.hpp"

#include <mutex>

#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/raw_ostream.h>

namespace lathe::runtime {
namespace {

thread_local int guards = 0;

#if LATHE_OWN_LLVM
void throw_if_guarded(void*, const char* reason, bool) {
  if (guards > 0) throw FatalError(reason);
}
#endif

} // namespace

Guard::Guard() {
#if LATHE_OWN_LLVM
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::install_fatal_error_handler(throw_if_guarded);
    llvm::install_bad_alloc_error_handler(throw_if_guarded);
  });
#endif
  ++guards;
}
Guard::~Guard() { --guards; }

void note_diagnostic(const llvm::DiagnosticInfo& info, void* complaint) {
  auto& text = *static_cast<std::string*>(complaint);
  if (!text.empty() || info.getSeverity() > llvm::DS_Warning) return;
  llvm::raw_string_ostream out(text);
  llvm::DiagnosticPrinterRawOStream printer(out);
  info.print(printer);
}
void note_diagnostic(const llvm::DiagnosticInfo* info, void* complaint) { note_diagnostic(*info, complaint); }

} // namespace lathe::runtime
