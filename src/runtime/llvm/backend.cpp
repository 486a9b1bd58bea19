// The LLVM backend. ORC links objects into the process, each kernel in a JITDylib of its own, so that the
// backend can free its code.
#include <atomic>
#include <cmath>
#include <cstring>

#include <fmt/core.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/Support/MemoryBuffer.h>
#if __has_include(<llvm/ExecutionEngine/Orc/AbsoluteSymbols.h>)
#include <llvm/ExecutionEngine/Orc/AbsoluteSymbols.h>
#endif
#if __has_include(<llvm/ExecutionEngine/Orc/SelfExecutorProcessControl.h>)
#include <llvm/ExecutionEngine/Orc/SelfExecutorProcessControl.h>
#endif

#include "lathe/error.hpp"
#include "render/llvm/module.hpp"
#include "runtime/llvm/codegen.hpp"
#include "runtime/llvm_backend.hpp"
#include "runtime/object_cache.hpp"

namespace lathe::runtime {
namespace {

namespace orc = llvm::orc;

template <class T> T checked(llvm::Expected<T> value, const char* doing) {
  if (!value) throw InternalError(fmt::format("llvm: {}: {}", doing, llvm::toString(value.takeError())));
  return std::move(*value);
}
void check(llvm::Error error, const char* doing) {
  if (error) throw InternalError(fmt::format("llvm: {}: {}", doing, llvm::toString(std::move(error))));
}

/// The session of the linker. The backend and all code still in use share it.
class Linker {
public:
  Linker()
      : session_(checked(
            orc::SelfExecutorProcessControl::Create(nullptr, std::make_unique<orc::InPlaceTaskDispatcher>()),
            "starting the linker")),
        layer_(session_), library_(session_.createBareJITDylib("library")) {
    session_.setErrorReporter(
        [](llvm::Error error) { llvm::consumeError(std::move(error)); }); // lathe throws instead
    orc::SymbolMap symbols;
    auto add = [&](const char* name, void* address) {
#if LLVM_VERSION_MAJOR >= 17
      symbols[session_.intern(name)] = {orc::ExecutorAddr::fromPtr(address), llvm::JITSymbolFlags::Exported};
#else
      symbols[session_.intern(name)] = llvm::JITEvaluatedSymbol::fromPointer(static_cast<char*>(address));
#endif
    };
    // All functions that generated code may call. It can't call others of the process.
    auto of = [](auto* function) { return reinterpret_cast<void*>(function); };
    using Float = float(float);
    using Double = double(double);
    add("exp2f", of(static_cast<Float*>(::exp2f)));
    add("log2f", of(static_cast<Float*>(::log2f)));
    add("sinf", of(static_cast<Float*>(::sinf)));
    add("cosf", of(static_cast<Float*>(::cosf)));
    add("sincosf", of(::sincosf));
    add("truncf", of(static_cast<Float*>(::truncf)));
    add("exp2", of(static_cast<Double*>(::exp2)));
    add("log2", of(static_cast<Double*>(::log2)));
    add("sin", of(static_cast<Double*>(::sin)));
    add("cos", of(static_cast<Double*>(::cos)));
    add("sincos", of(::sincos)); // LLVM calls it for the sine and cosine of one angle
    add("trunc", of(static_cast<Double*>(::trunc)));
    add("fmodf", of(static_cast<float (*)(float, float)>(::fmodf)));
    add("fmod", of(static_cast<double (*)(double, double)>(::fmod)));
    add("fmaf", of(static_cast<float (*)(float, float, float)>(::fmaf)));
    add("fma", of(static_cast<double (*)(double, double, double)>(::fma)));
    add("memcpy", of(static_cast<void* (*)(void*, const void*, size_t)>(std::memcpy)));
    add("memmove", of(static_cast<void* (*)(void*, const void*, size_t)>(std::memmove)));
    add("memset", of(static_cast<void* (*)(void*, int, size_t)>(std::memset)));
    check(library_.define(orc::absoluteSymbols(std::move(symbols))), "naming the library's functions");
  }
  ~Linker() { llvm::consumeError(session_.endSession()); }

  orc::JITDylib& link(const std::string& object, KernelFunction& function) {
    orc::JITDylib& dylib = session_.createBareJITDylib(fmt::format("kernel_{}", kernels_++));
    try {
      dylib.addToLinkOrder(library_);
      check(layer_.add(dylib, llvm::MemoryBuffer::getMemBufferCopy(object, dylib.getName())),
            "reading an object");
      auto symbol = checked(session_.lookup({&dylib}, session_.intern(render::kLlvmEntry)), "linking");
#if LLVM_VERSION_MAJOR >= 17
      function = symbol.getAddress().toPtr<KernelFunction>();
#else
      function = reinterpret_cast<KernelFunction>(symbol.getAddress());
#endif
    } catch (...) {
      unlink(dylib);
      throw;
    }
    return dylib;
  }
  void unlink(orc::JITDylib& dylib) { llvm::consumeError(session_.removeJITDylib(dylib)); }

private:
  orc::ExecutionSession session_;
  orc::ObjectLinkingLayer layer_;
  orc::JITDylib& library_;
  std::atomic<int> kernels_{0};
};

class Backend : public LlvmBackend {
public:
  HostCode compile(const ast::Kernel& kernel, const CompileFlags& flags) override {
    return link(flags.candidate ? generate(kernel, flags.cpu, CodeFile::Object) : object(kernel, flags),
                flags);
  }
  std::string object_name(const ast::Kernel& kernel, const CompileFlags& flags) override {
    return codegen_identity(flags.cpu) + "\n" + ast::print(kernel);
  }
  std::string object(const ast::Kernel& kernel, const CompileFlags& flags) override {
    const std::string name = object_name(kernel, flags);
    if (auto found = cache_.find(name)) return std::move(found->object);
    std::string made = generate(kernel, flags.cpu, CodeFile::Object);
    cache_.keep(name, made);
    return made;
  }
  HostCode link(const std::string& object, const CompileFlags& flags) override {
    require_host_runs(flags.cpu);
    HostCode code;
    orc::JITDylib* dylib = &linker_->link(object, code.function);
    code.bytes = object.size();
    code.owner = std::shared_ptr<void>(
        dylib, [linker = linker_](void* held) { linker->unlink(*static_cast<orc::JITDylib*>(held)); });
    return code;
  }
  std::string ir_text(const ast::Kernel& kernel, const CompileFlags& flags) override {
    return generate(kernel, flags.cpu, CodeFile::Ir);
  }
  std::string assembly(const ast::Kernel& kernel, const CompileFlags& flags) override {
    return generate(kernel, flags.cpu, CodeFile::Assembly);
  }
  std::string host_description() override { return codegen_description(); }
  int vector_bytes(const std::string& cpu) override { return vector_bytes_of(cpu); }
  Instructions instructions(const std::string& cpu) override { return instructions_of(cpu); }
  int byte_table_of(const std::string& cpu) override { return runtime::byte_table_of(cpu); }

private:
  const ObjectCache cache_{"objects", ".o"};
  std::shared_ptr<Linker> linker_ = std::make_shared<Linker>();
};

} // namespace
} // namespace lathe::runtime

extern "C" __attribute__((visibility("default"))) lathe::runtime::LlvmBackend* lathe_make_llvm_backend() {
  return new lathe::runtime::Backend;
}
