// What LLVM gives up over becomes an exception on a guarded thread, and nothing is printed.
#include <doctest/doctest.h>

#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/Support/ErrorHandling.h>

#include <thread>

#include "runtime/llvm/guard.hpp"

using namespace lathe::runtime;

namespace {
std::string fatal_message() {
  const Guard guard;
  try {
    llvm::report_fatal_error("out of registers");
  } catch (const FatalError& error) {
    return error.what();
  }
}
} // namespace

TEST_CASE("a fatal error is thrown, again and again and on any guarded thread") {
  CHECK(fatal_message() == "out of registers");
  std::string other;
  std::thread([&] { other = fatal_message(); }).join();
  CHECK(other == "out of registers");
  const Guard outer;
  CHECK(fatal_message() == "out of registers");
  CHECK_THROWS_AS(llvm::report_bad_alloc_error("no memory"), FatalError);
}

TEST_CASE("the first warning or error is noted") {
  std::string complaint;
  llvm::LLVMContext context;
  context.setDiagnosticHandlerCallBack(note_diagnostic, &complaint);
  context.emitError("the first"); // would end the process
  context.emitError("the second");
  CHECK(complaint.find("the first") != std::string::npos);
  CHECK(complaint.find("the second") == std::string::npos);
}
