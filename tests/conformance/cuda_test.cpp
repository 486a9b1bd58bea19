// What emitted CUDA C computes, compared with the interpreter on fresh random inputs. Without a GPU the
// source is compiled as C++ for this machine, where a block's threads are threads and blocks run one after
// the other. Where LATHE_NVCC names CUDA's compiler, it runs on the GPU.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <thread>

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/tensor_impl.hpp"
#include "render/render.hpp"
#include "search/beam/search.hpp"
#include "search/cost/cost.hpp"
#include "search/suggest/suggest.hpp"
#include "support/programs.hpp"
#include "support/run_plan.hpp"
#include "support/walk.hpp"

using namespace lathe;
namespace fs = std::filesystem;

namespace {

/// CUDA's words for a compiler that has never heard of them.
constexpr const char* kHostShim = R"(
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>
#define __device__
#define __global__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(n)
#define __align__(n) __attribute__((aligned(n)))
#define asm
#define volatile(...)
using std::fma, std::sqrt, std::trunc, std::exp2, std::log2, std::sin, std::cos;
struct dim { unsigned x, y, z; };
static dim blockIdx;
static thread_local dim threadIdx;
static std::unique_ptr<std::barrier<>> block_barrier;
static void __syncthreads() { if (block_barrier) block_barrier->arrive_and_wait(); }
template <class T, class U> static T bits_of(U x) { T y; std::memcpy(&y, &x, sizeof y); return y; }
static uint32_t __float_as_uint(float x) { return bits_of<uint32_t>(x); }
static float __uint_as_float(uint32_t x) { return bits_of<float>(x); }
static float __int_as_float(int32_t x) { return bits_of<float>(x); }
static long long __double_as_longlong(double x) { return bits_of<long long>(x); }
static double __longlong_as_double(long long x) { return bits_of<double>(x); }

template <class... A> static const char* run(void (*kernel)(A...), const int64_t* arguments, const int64_t* groups,
                                             const int64_t* items, bool has_barrier) {
  const auto call = [&]<size_t... I>(std::index_sequence<I...>) { kernel((A)arguments[I]...); };
  const auto thread = [&](unsigned i) {
    threadIdx = {unsigned(i % items[0]), unsigned(i / items[0] % items[1]), unsigned(i / items[0] / items[1])};
    call(std::index_sequence_for<A...>());
  };
  const unsigned count = unsigned(items[0] * items[1] * items[2]);
  for (unsigned z = 0; z < groups[2]; ++z)
    for (unsigned y = 0; y < groups[1]; ++y)
      for (unsigned x = 0; x < groups[0]; ++x) {
        blockIdx = {x, y, z};
        if (!has_barrier) {
          for (unsigned i = 0; i < count; ++i) thread(i);
          continue;
        }
        block_barrier = std::make_unique<std::barrier<>>(count);
        std::vector<std::jthread> threads;
        for (unsigned i = 0; i < count; ++i) threads.emplace_back([&, i] { thread(i); });
        threads.clear();
        block_barrier.reset();
      }
  return nullptr;
}
)";

/// The same call on a GPU. It returns null, or CUDA's message.
constexpr const char* kGpuShim = R"(
#include <cstdint>
#include <tuple>
#include <utility>
template <class... A> static const char* run(void (*kernel)(A...), const int64_t* arguments, const int64_t* groups,
                                             const int64_t* items, bool) {
  const auto call = [&]<size_t... I>(std::index_sequence<I...>) {
    kernel<<<dim3(groups[0], groups[1], groups[2]), dim3(items[0], items[1], items[2])>>>((A)arguments[I]...);
  };
  call(std::index_sequence_for<A...>());
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}
)";

constexpr const char* kHostMemory = R"(
#include <cstddef>
#include <cstdint>
extern "C" const char* lathe_upload(int64_t* address, const void* from, size_t) {
  *address = (int64_t)from;
  return nullptr;
}
extern "C" const char* lathe_download(int64_t, void*, size_t) { return nullptr; }
extern "C" void lathe_free(int64_t) {}
)";

constexpr const char* kGpuMemory = R"(
#include <cstddef>
#include <cstdint>
static const char* text(cudaError_t error) { return error == cudaSuccess ? nullptr : cudaGetErrorString(error); }
extern "C" const char* lathe_upload(int64_t* address, const void* from, size_t bytes) {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes ? bytes : 1);
  *address = (int64_t)memory;
  return text(error == cudaSuccess ? cudaMemcpy(memory, from, bytes, cudaMemcpyHostToDevice) : error);
}
extern "C" const char* lathe_download(int64_t address, void* to, size_t bytes) {
  return text(cudaMemcpy(to, (void*)address, bytes, cudaMemcpyDeviceToHost));
}
extern "C" void lathe_free(int64_t address) { cudaFree((void*)address); }
)";

/// A shared library that a compiler made of one file.
class Library {
public:
  Library(const fs::path& stem, const std::string& text) {
    const char* nvcc = std::getenv("LATHE_NVCC");
    const std::string source = stem.string() + (nvcc ? ".cu" : ".cpp"), library = stem.string() + ".so";
    std::ofstream(source) << text;
    const std::string command = fmt::format(
        "{} {} -o {}",
        nvcc ? std::string(nvcc) + " -std=c++20 -arch=native -fmad=false -shared -Xcompiler -fPIC -w"
             : LATHE_CXX " -std=c++20 -O1 -shared -fPIC -pthread -w -ffp-contract=off -fno-strict-aliasing",
        source, library);
    if (std::system(command.c_str()) != 0) throw std::runtime_error("cannot compile " + source);
    handle_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_) throw std::runtime_error(dlerror());
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() { dlclose(handle_); }

  template <class F> F* function(const std::string& name) const {
    void* found = dlsym(handle_, name.c_str());
    if (!found) throw std::runtime_error("no function " + name);
    return reinterpret_cast<F*>(found);
  }

private:
  void* handle_ = nullptr;
};

void check(const char* message) {
  if (message) throw std::runtime_error(message);
}

/// The kernels of many plans, compiled in as many files as there are cores.
class Kernels {
public:
  explicit Kernels(fs::path folder) : folder_(std::move(folder)) { fs::create_directories(folder_); }

  void add(const search::KernelPlan& kernel) {
    const auto [place, is_new] = sources_.emplace(kernel.hash, render::GridSource{});
    if (is_new) place->second = render::render_cuda(test::finalised(kernel.kernel));
  }

  void build() {
    const bool on_gpu = std::getenv("LATHE_NVCC") != nullptr;
    std::vector<std::string> texts(std::max(1u, std::thread::hardware_concurrency()),
                                   on_gpu ? kGpuShim : kHostShim);
    size_t next = 0;
    for (const auto& [hash, made] : sources_) {
      file_of_[hash] = next;
      texts[next] += text_of(hash, made);
      next = (next + 1) % texts.size();
    }
    texts.push_back(on_gpu ? kGpuMemory : kHostMemory);
    std::vector<std::future<std::unique_ptr<Library>>> made;
    for (size_t f = 0; f < texts.size(); ++f)
      made.push_back(std::async(std::launch::async, [this, f, &texts] {
        return std::make_unique<Library>(folder_ / fmt::format("kernels{}", f), texts[f]);
      }));
    for (auto& library : made) libraries_.push_back(library.get());
  }

  void run(const search::KernelPlan& kernel, test::Memory& memory) const {
    const render::GridSource& source = sources_.at(kernel.hash);
    const Library& transfers = *libraries_.back();
    std::vector<int64_t> arguments;
    const auto upload = [&](const void* from, size_t bytes) {
      check(transfers.function<Upload>("lathe_upload")(&arguments.emplace_back(), from, bytes));
    };
    for (const ast::Param& p : kernel.kernel.params) {
      const auto& bytes = memory.at(p.buffer->name);
      upload(bytes.data(), bytes.size());
    }
    std::vector<std::vector<unsigned char>> temporaries;
    for (const auto& t : source.temporaries) temporaries.emplace_back(static_cast<size_t>(t.bytes), 0xA5);
    for (const auto& t : temporaries) upload(t.data(), t.size());
    const size_t buffers = arguments.size();
    arguments.resize(buffers + kernel.kernel.params.size()); // each begins at element 0
    const Library& library = *libraries_[file_of_.at(kernel.hash)];
    for (size_t f = 0; f < source.functions.size(); ++f) {
      int64_t groups[3], items[3];
      for (int axis = 0; axis < 3; ++axis) {
        items[axis] = source.launches[f].local[axis].value();
        groups[axis] = source.launches[f].global[axis].value() / items[axis];
      }
      check(library.function<Launch>(launcher_name(kernel.hash, f))(arguments.data(), groups, items));
    }
    for (size_t p = 0; p < kernel.kernel.params.size(); ++p) {
      if (!kernel.kernel.params[p].written) continue;
      auto& bytes = memory.at(kernel.kernel.params[p].buffer->name);
      check(transfers.function<Download>("lathe_download")(arguments[p], bytes.data(), bytes.size()));
    }
    for (size_t b = 0; b < buffers; ++b) transfers.function<Free>("lathe_free")(arguments[b]);
  }

  size_t size() const { return sources_.size(); }
  size_t with_barriers() const {
    return static_cast<size_t>(
        std::count_if(sources_.begin(), sources_.end(), [](const auto& s) { return has_barrier(s.second); }));
  }

private:
  using Launch = const char*(const int64_t* arguments, const int64_t* groups, const int64_t* items);
  using Upload = const char*(int64_t* address, const void* from, size_t bytes);
  using Download = const char*(int64_t address, void* to, size_t bytes);
  using Free = void(int64_t address);

  static bool has_barrier(const render::GridSource& source) {
    return source.text.find("__syncthreads") != std::string::npos;
  }
  static std::string launcher_name(uint64_t hash, size_t function) {
    return fmt::format("run_{:x}_{}", hash, function);
  }

  /// The source in a namespace of its own, and a function for each of its kernels that launches it.
  static std::string text_of(uint64_t hash, const render::GridSource& made) {
    std::string text = made.text;
    const std::string linkage = "extern \"C\" ";
    for (size_t at = 0; (at = text.find(linkage, at)) != std::string::npos;) text.erase(at, linkage.size());
    for (size_t at = 0; (at = text.find("#include", at)) != std::string::npos; at += 4)
      text.insert(at, "// ");
    // Macros know no namespaces: each kernel's helpers define the same ones again.
    std::string all = fmt::format("namespace k{:x} {{\n{}\n}}\n", hash, text);
    for (size_t f = 0; f < made.functions.size(); ++f)
      all += fmt::format("extern \"C\" const char* {}(const int64_t* a, const int64_t* g, const int64_t* i) "
                         "{{ return run(k{:x}::{}, a, g, i, {}); }}\n",
                         launcher_name(hash, f), hash, made.functions[f], has_barrier(made));
    return all;
  }

  fs::path folder_;
  std::map<uint64_t, render::GridSource> sources_;
  std::map<uint64_t, size_t> file_of_;              // which of libraries_ holds a kernel
  std::vector<std::unique_ptr<Library>> libraries_; // the last one moves memory
};

struct Planned {
  std::string name;
  search::Plan plan;
  test::Memory inputs, expected;
  int64_t reduction_length;
  bool exact;
};

/// Large enough for blocks of many threads.
std::vector<test::NamedProgram> programs_for_blocks() {
  const auto in = [](const char* name, Shape shape, DType dtype = DType::F32) {
    return Tensor::input(name, shape, dtype);
  };
  const Tensor x = in("x", {70, 200});
  std::vector<test::NamedProgram> programs = {
      {"batched matmul", {{"y", in("a", {3, 20, 33}).matmul(in("b", {3, 33, 17}))}}, 33},
      {"elementwise", {{"y", (x * 2.0f).relu() + 1.0f}}, 1},
      {"rows", {{"y", x.sum({1})}}, 200},
      {"transpose", {{"y", x.transpose().contiguous()}}, 1}};
  for (const DType dtype : {DType::F32, DType::F64, DType::I32, DType::I8})
    programs.push_back({"matmul of " + std::string(to_string(dtype)),
                        {{"y", in("a", {40, 36}, dtype).matmul(in("b", {36, 49}, dtype))}},
                        36});
  return programs;
}

/// The plan with one of each kind of proposal for work-groups, and what is cheap inlined.
std::vector<search::Plan> in_blocks(const search::Plan& start, const search::Target& target) {
  const search::MachineProfile machine;
  search::Features features;
  const auto proposals = [&](search::Suggester suggest, const search::Plan& plan, size_t k) {
    read_features(plan.kernels[k]->kernel, target, features);
    return suggest({plan, *plan.kernels[k], features, target, machine, true, {}, true});
  };
  search::Plan inlined = start;
  for (const search::Proposal& p : proposals(search::suggest_inline, start, 0))
    if (auto applied = search::apply(start, p.moves, target); applied.plan)
      inlined = std::move(*applied.plan);
  std::vector<search::Plan> plans;
  for (size_t k = 0; k < inlined.kernels.size(); ++k)
    for (const search::Proposal& p : proposals(search::suggest_opencl, inlined, k))
      if (auto applied = search::apply(inlined, p.moves, target); applied.plan)
        plans.push_back(std::move(*applied.plan));
  return plans;
}

} // namespace

TEST_CASE("emitted CUDA C computes what the interpreter computes") {
  search::Target target;
  target.device = "cuda";
  target.groups = target.gpu = true;
  target.local_bytes = 48 << 10;
  std::vector<test::NamedProgram> programs = test::small_programs();
  for (auto more : {test::long_sums, test::programs_of_all_dtypes, programs_for_blocks})
    for (auto& program : more()) programs.push_back(std::move(program));

  Kernels kernels(fs::path(std::getenv("LATHE_CACHE_DIR")) / "cuda");
  std::vector<Planned> planned;
  for (size_t p = 0; p < programs.size(); ++p) {
    const test::NamedProgram& program = programs[p];
    std::vector<lower::NamedOutput> outputs;
    for (const auto& [label, tensor] : program.outputs) outputs.push_back({label, graph::node_of(tensor)});
    auto lowered = std::make_shared<const lower::Program>(lower::lower(outputs));
    const search::Plan start = search::initial_plan(lowered);
    Planned one{
        program.name, start, test::random_inputs(*lowered, p, program.whole), {}, program.reduction_length,
        program.whole};
    one.expected = one.inputs;
    test::run_plan(start, one.expected, nullptr);
    search::CostModel model(target, search::MachineProfile());
    one.plan = search::search(start, model, {}).plan;
    planned.push_back(one);
    test::Walker walker(p, target);
    one.name += " by a walk";
    one.plan = walker.walk(start, 40);
    // One that rewrites the graph has other stages.
    if (one.plan.program == start.program) planned.push_back(one);
    one.name = program.name + " in blocks";
    for (search::Plan& plan : in_blocks(start, target)) {
      one.plan = std::move(plan);
      planned.push_back(one);
    }
  }
  size_t refused = 0;
  std::erase_if(planned, [&](const Planned& one) {
    try {
      for (const auto& kernel : one.plan.kernels) kernels.add(*kernel);
      return false;
    } catch (const Error& error) { // an array that has no place on such a device
      CHECK(error.kind() == ErrorKind::Device);
      ++refused;
      return true;
    }
  });
  CHECK(refused == 0);
  REQUIRE(planned.size() > 40);
  kernels.build();
  for (const Planned& one : planned) {
    CAPTURE(one.name);
    test::Memory memory = one.inputs;
    for (const auto& kernel : one.plan.kernels) {
      for (const ast::Kernel& fill : kernel->constants) {
        auto &source = memory.at(fill.params[0].buffer->name), &copy = memory[fill.params[1].buffer->name];
        copy.assign(test::bytes_of(*fill.params[1].buffer), 0xA5);
        ast::interpret(fill, {{source.data(), source.size()}, {copy.data(), copy.size()}}, {});
      }
      for (const ast::Param& param : kernel->kernel.params)
        if (param.written) memory[param.buffer->name].assign(test::bytes_of(*param.buffer), 0xA5);
      kernels.run(*kernel, memory);
    }
    const lower::Program& program = *one.plan.program;
    const std::string wrong = one.exact
                                  ? test::exact_difference(program, memory, one.expected)
                                  : test::difference(program, memory, one.expected, one.reduction_length);
    CHECK_MESSAGE(wrong.empty(), wrong);
  }
  MESSAGE(planned.size() << " plans of " << kernels.size() << " kernels, " << kernels.with_barriers()
                         << " with barriers");
  CHECK(kernels.with_barriers() >= 4); // as many as blocks bring; a walk seldom makes one
}
