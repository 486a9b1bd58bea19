#include "runtime/llvm/codegen.hpp"

#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include <fmt/core.h>
#include <fmt/format.h>

#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/ConstantFolding.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/PassInstrumentation.h>
#include <llvm/IR/PassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Scalar/SROA.h>
#if __has_include(<llvm/TargetParser/Host.h>)
#include <llvm/TargetParser/Host.h>
#else
#include <llvm/Support/Host.h>
#endif

#include "lathe/error.hpp"
#include "render/llvm/module.hpp"
#include "runtime/kernel_abi.hpp"
#include "runtime/llvm/guard.hpp"

namespace lathe::runtime {
namespace {

#if LLVM_VERSION_MAJOR >= 18
constexpr auto kOptLevel = llvm::CodeGenOptLevel::Default;
constexpr auto kObjectFile = llvm::CodeGenFileType::ObjectFile;
constexpr auto kAssemblyFile = llvm::CodeGenFileType::AssemblyFile;
#else
constexpr auto kOptLevel = llvm::CodeGenOpt::Default;
constexpr auto kObjectFile = llvm::CGFT_ObjectFile;
constexpr auto kAssemblyFile = llvm::CGFT_AssemblyFile;
#endif

std::string host_features() {
#if LLVM_VERSION_MAJOR >= 19
  const auto features = llvm::sys::getHostCPUFeatures();
#else
  llvm::StringMap<bool> features;
  llvm::sys::getHostCPUFeatures(features);
#endif
  std::vector<std::string> names; // sorted below, since the map's order may differ between runs
  for (const auto& feature : features)
    names.push_back(fmt::format("{}{}", feature.second ? "+" : "-", std::string_view(feature.first())));
  std::sort(names.begin(), names.end());
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ",") + name;
  return out;
}

/// Whether this process may use the tile registers. The kernel gives them to those who ask.
bool may_use_tiles() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr int kRequestPermission = 0x1023, kTileData = 18; // arch_prctl(2)
  static const bool may = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return may;
#else
  return false;
#endif
}

/// `has`: whether the CPU has a feature, by LLVM's name.
template <class F> Instructions tensor_instructions(const F& has) {
  Instructions out;
  if (has("+amx-int8") && may_use_tiles())
    out.insert(out.end(),
               {Instruction::TileI8I8, Instruction::TileI8U8, Instruction::TileU8I8, Instruction::TileU8U8});
  if (has("+amx-bf16") && may_use_tiles()) out.push_back(Instruction::TileBF16);
  const bool has_dots = (has("+avx512vnni") && has("+avx512vl")) || has("+avxvnni");
  if (has_dots) out.insert(out.end(), {Instruction::DotU8I8, Instruction::DotI8U8});
  if (has("+avx2")) {
    if (!has_dots) out.insert(out.end(), {Instruction::PairU8I8, Instruction::PairI8U8});
    out.insert(out.end(), {Instruction::PairI8I8, Instruction::PairU8U8, Instruction::PairI16I8,
                           Instruction::PairI16U8, Instruction::PairI16I16});
  }
  if (has("+avx512bf16") && has("+avx512vl")) out.push_back(Instruction::DotBF16);
  return out;
}

/// One CPU to generate code for, with its idle TargetMachines. A TargetMachine serves one thread at a time.
class Cpu {
public:
  explicit Cpu(const std::string& name) {
    target.triple = llvm::sys::getProcessTriple();
    const bool native = name == "native";
    target.cpu = native ? llvm::sys::getHostCPUName().str() : name;
    if (native) target.features = host_features();
    std::string why;
    target_ = llvm::TargetRegistry::lookupTarget(target.triple, why);
    if (!target_) throw Error(ErrorKind::Device, "cpu: LLVM has no code generator for this machine: " + why);
    auto machine = take();
    target.data_layout = machine->createDataLayout().getStringRepresentation();
    const bool x86 = llvm::StringRef(target.triple).contains("86");
    const auto& info = *machine->getMCSubtargetInfo();
    auto has = [&](const char* feature) { return x86 && info.checkFeatures(feature); };
    target.has_f16c = has("+f16c");
    target.has_fma = has("+fma");
    target.has_scalef = has("+avx512f") && has("+avx512vl");
    target.has_permute = has("+avx512f");
    target.byte_table = has("+avx512vbmi") ? 128 : has("+ssse3") ? 16 : 0;
    target.gathers = !target.cpu.starts_with("znver"); // gathers of AMD Zen are microcode, and slow
    target.instructions = tensor_instructions(has);
    target.vector_bytes = target.has_scalef ? 64 : has("+avx2") && has("+fma") ? 32 : 16;
    give(std::move(machine));
  }

  std::unique_ptr<llvm::TargetMachine> take() {
    {
      std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto machine = std::move(idle_.back());
        idle_.pop_back();
        return machine;
      }
    }
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Strict; // only an Fma of the kernel is fused
#if LLVM_VERSION_MAJOR >= 21
    const llvm::Triple triple(target.triple);
#else
    const std::string& triple = target.triple;
#endif
    std::unique_ptr<llvm::TargetMachine> machine(target_->createTargetMachine(
        triple, target.cpu, target.features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small, kOptLevel));
    if (!machine) throw Error(ErrorKind::Device, "cpu: LLVM can't generate code for " + target.cpu);
    return machine;
  }
  void give(std::unique_ptr<llvm::TargetMachine> machine) {
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(machine));
  }

  render::LlvmTarget target;

private:
  const llvm::Target* target_ = nullptr;
  std::mutex mutex_;
  std::vector<std::unique_ptr<llvm::TargetMachine>> idle_;
};

/// Turns off LLVM's second scheduling of instructions, after register allocation. It takes a tenth of the
/// time of code generation. On a core that reorders instructions itself, it makes none of our kernels faster.
void leave_out_second_scheduling() {
#if LATHE_OWN_LLVM
  auto& options = llvm::cl::getRegisteredOptions();
  const llvm::StringRef name = "disable-post-ra";
  if (const auto option = options.find(name); option != options.end())
    option->second->addOccurrence(0, name, "true");
#endif
}

Cpu& cpu_of(const std::string& name) {
  constexpr const char* kNames[] = {"native", "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
  if (std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames))
    throw Error(ErrorKind::Device,
                fmt::format("cpu: CPU '{}' is unknown, expected native, x86-64, x86-64-v2, "
                            "x86-64-v3 or x86-64-v4",
                            name));
  static std::mutex mutex;
  static auto* cpus = new std::map<std::string, Cpu>; // never destroyed, since threads may still use it
  std::lock_guard lock(mutex);
  if (cpus->empty()) {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    leave_out_second_scheduling();
  }
  return cpus->try_emplace(name, name).first->second;
}

/// Folds the instructions whose operands became constants with the promotion of registers. LLVM 19 generates
/// wrong code for x86 of some such: of vectors of constants that are put together by `select` with undefined
/// lanes, and compared.
void fold_constants(llvm::Function& function) {
  const llvm::DataLayout& layout = function.getParent()->getDataLayout();
  for (llvm::BasicBlock& block : function)
    for (llvm::Instruction& instruction : llvm::make_early_inc_range(block))
      if (llvm::Constant* value = llvm::ConstantFoldInstruction(&instruction, layout)) {
        instruction.replaceAllUsesWith(value);
        instruction.eraseFromParent();
      }
}

/// Turns register buffers into registers. All other code is already in its final place.
void promote_registers(llvm::Module& module) {
  llvm::FunctionAnalysisManager analyses;
  analyses.registerPass([] { return llvm::DominatorTreeAnalysis(); });
  analyses.registerPass([] { return llvm::AssumptionAnalysis(); });
  analyses.registerPass([] { return llvm::TargetIRAnalysis(); });
  analyses.registerPass([] { return llvm::PassInstrumentationAnalysis(); });
  for (llvm::Function& function : module) {
    if (function.empty()) continue;
    const auto is_alloca = [](const llvm::Instruction& i) { return llvm::isa<llvm::AllocaInst>(i); };
    if (llvm::none_of(function.getEntryBlock(), is_alloca)) continue;
    llvm::SROAPass(llvm::SROAOptions::PreserveCFG).run(function, analyses);
    fold_constants(function);
  }
}

void verify_module(const llvm::Module& module) {
  std::string complaint;
  llvm::raw_string_ostream out(complaint);
  if (llvm::verifyModule(module, &out)) throw InternalError("llvm: " + out.str());
}

// Bytes; the largest stack frame of a kernel. A tile of accumulators that does not fit into registers takes a
// few kilobytes, and worker threads have stacks of megabytes.
constexpr const char* kMostStackBytes = "1048576";

/// The objects that code generation works on. After a FatalError they must not be destroyed.
struct Job {
  std::string complaint;
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module;
  std::unique_ptr<llvm::TargetMachine> machine;
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out{bytes};
  std::optional<llvm::legacy::PassManager> passes;
};

std::string text_of(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  module.print(out, nullptr);
  return out.str();
}

std::string run_job(Job& job, const ast::Kernel& kernel, Cpu& cpu, CodeFile file) {
  const Guard guard;
  job.context.setDiagnosticHandlerCallBack(note_diagnostic, &job.complaint);
  job.module = render::build_llvm_module(job.context, kernel, layout_scratch(kernel).offset_of, cpu.target);
  // The check costs little compared with code generation. A module that fails it would compute wrong results.
  verify_module(*job.module);
  promote_registers(*job.module);
  if (file == CodeFile::Ir) return text_of(*job.module);
  for (llvm::Function& function : *job.module)
    if (!function.empty()) function.addFnAttr("warn-stack-size", kMostStackBytes);
  job.machine = cpu.take();
  job.passes.emplace();
  if (job.machine->addPassesToEmitFile(*job.passes, job.out, nullptr,
                                       file == CodeFile::Object ? kObjectFile : kAssemblyFile))
    throw InternalError("llvm: no object files for " + cpu.target.triple);
  job.passes->run(*job.module);
  job.passes.reset(); // the passes refer to the machine
  cpu.give(std::move(job.machine));
  return std::string(job.bytes.data(), job.bytes.size());
}

[[noreturn]] void refuse(const ast::Kernel& kernel, const std::string& why) {
  throw Error(ErrorKind::Device,
              fmt::format("cpu: LLVM can't compile kernel '{}', expected it to: {}", kernel.name, why));
}

} // namespace

std::string generate(const ast::Kernel& kernel, const std::string& cpu_name, CodeFile file) {
  Cpu& cpu = cpu_of(cpu_name);
  auto job = std::make_unique<Job>();
  std::string result;
  try {
    result = run_job(*job, kernel, cpu, file);
  } catch (const FatalError& error) {
    static_cast<void>(job.release()); // leaked: its state is undefined, see guard.hpp
    refuse(kernel, error.what());
  }
  if (!job->complaint.empty()) refuse(kernel, job->complaint);
  return result;
}

const Instructions& instructions_of(const std::string& cpu) { return cpu_of(cpu).target.instructions; }
int byte_table_of(const std::string& cpu) { return cpu_of(cpu).target.byte_table; }

int vector_bytes_of(const std::string& cpu) { return cpu_of(cpu).target.vector_bytes; }

void require_host_runs(const std::string& cpu) {
  cpu_of(cpu); // throws if the name is unknown
  std::string needed;
  if (cpu == "x86-64-v2") needed = "+sse4.2,+popcnt,+cx16";
  if (cpu == "x86-64-v3") needed = "+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe";
  if (cpu == "x86-64-v4")
    needed = "+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe,+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl";
  if (needed.empty()) return;
  auto host = cpu_of("native").take();
  const bool runs = host->getMCSubtargetInfo()->checkFeatures(needed);
  cpu_of("native").give(std::move(host));
  if (!runs)
    throw Error(ErrorKind::Device,
                fmt::format("cpu: this machine can't run code for {}, expected native", cpu));
}

std::string codegen_identity(const std::string& cpu) {
  // Another build of this library may generate other code for the same kernel.
  static const std::string build = [] {
    Dl_info info;
    struct stat file{};
    if (!dladdr(reinterpret_cast<void*>(&codegen_identity), &info) || stat(info.dli_fname, &file) != 0)
      return std::string();
    return fmt::format("{}.{}.{}", file.st_size, file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
  }();
  const Cpu& of = cpu_of(cpu);
  return fmt::format("lathe {} LLVM {} {} {} {}", build, LLVM_VERSION_STRING, of.target.triple, of.target.cpu,
                     of.target.features);
}

std::string codegen_description() {
  const Cpu& host = cpu_of("native");
  return fmt::format("LLVM {}, {}, {}-bit vectors", LLVM_VERSION_STRING, host.target.cpu,
                     host.target.vector_bytes * 8);
}

} // namespace lathe::runtime
