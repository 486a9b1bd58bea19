// What emitted CUDA C computes, without a GPU: the source is compiled as C++ for this machine, where a
// block's threads are threads and blocks run one after the other, and compared with the interpreter on fresh
// random inputs.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

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
constexpr const char* kShim = R"(
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

template <class... A> static void run(void (*kernel)(A...), const int64_t* arguments, const int64_t* groups,
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
}
)";

using Launch = void (*)(const int64_t* arguments, const int64_t* groups, const int64_t* items);

/// The kernels of many plans, compiled together: a compiler takes longer to start than for any of them.
class Kernels {
public:
  explicit Kernels(fs::path folder) : folder_(std::move(folder)) { fs::create_directories(folder_); }
  ~Kernels() {
    if (library_) dlclose(library_);
  }

  void add(const search::KernelPlan& kernel) {
    const auto [place, is_new] = sources_.emplace(kernel.hash, render::GridSource{});
    if (is_new) place->second = render::render_cuda(test::finalised(kernel.kernel));
  }

  void build() {
    const fs::path source = folder_ / "kernels.cpp", library = folder_ / "kernels.so";
    std::ofstream out(source);
    out << kShim;
    for (const auto& [hash, made] : sources_) {
      std::string text = made.text;
      const std::string linkage = "extern \"C\" ";
      for (size_t at = 0; (at = text.find(linkage, at)) != std::string::npos;) text.erase(at, linkage.size());
      for (size_t at = 0; (at = text.find("#include", at)) != std::string::npos; at += 4)
        text.insert(at, "// ");
      // Macros know no namespaces: each kernel's helpers define the same ones again.
      out << fmt::format("namespace k{:x} {{\n{}\n}}\n", hash, text);
      for (size_t f = 0; f < made.functions.size(); ++f)
        out << fmt::format(
            "extern \"C\" void run_{0:x}_{1}(const int64_t* a, const int64_t* g, const int64_t* i) "
            "{{ run(k{0:x}::{2}, a, g, i, {3}); }}\n",
            hash, f, made.functions[f], made.text.find("__syncthreads") != std::string::npos);
    }
    out.close();
    const std::string command = fmt::format(
        "{} -std=c++20 -O1 -shared -fPIC -pthread -w -ffp-contract=off -fno-strict-aliasing {} -o {}",
        LATHE_CXX, source.string(), library.string());
    REQUIRE(std::system(command.c_str()) == 0);
    library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    const char* error = library_ ? "" : dlerror();
    REQUIRE_MESSAGE(library_, error);
  }

  void run(const search::KernelPlan& kernel, test::Memory& memory) const {
    const render::GridSource& source = sources_.at(kernel.hash);
    std::vector<int64_t> arguments;
    const auto add = [&](void* memory) { arguments.push_back(reinterpret_cast<int64_t>(memory)); };
    for (const ast::Param& p : kernel.kernel.params) add(memory.at(p.buffer->name).data());
    std::vector<std::vector<unsigned char>> temporaries;
    for (const auto& t : source.temporaries) temporaries.emplace_back(static_cast<size_t>(t.bytes), 0xA5);
    for (auto& t : temporaries) add(t.data());
    arguments.resize(arguments.size() + kernel.kernel.params.size()); // each begins at element 0
    for (size_t f = 0; f < source.functions.size(); ++f) {
      int64_t groups[3], items[3];
      for (int axis = 0; axis < 3; ++axis) {
        items[axis] = source.launches[f].local[axis].value();
        groups[axis] = source.launches[f].global[axis].value() / items[axis];
      }
      const std::string name = fmt::format("run_{:x}_{}", kernel.hash, f);
      const auto launch = reinterpret_cast<Launch>(dlsym(library_, name.c_str()));
      const bool is_there = launch != nullptr;
      REQUIRE(is_there);
      launch(arguments.data(), groups, items);
    }
  }

  size_t size() const { return sources_.size(); }
  size_t with_barriers() const {
    return static_cast<size_t>(std::count_if(sources_.begin(), sources_.end(), [](const auto& s) {
      return s.second.text.find("__syncthreads") != std::string::npos;
    }));
  }

private:
  fs::path folder_;
  std::map<uint64_t, render::GridSource> sources_;
  void* library_ = nullptr;
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
    return suggest({plan, *plan.kernels[k], features, target, machine, true});
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

  Kernels kernels(fs::path(std::getenv("LATHE_CACHE_DIR")) / "cuda_on_host");
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
  CHECK(kernels.with_barriers() > 4);
}
