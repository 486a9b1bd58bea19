// Small programs of views, elementwise functions and reductions, at sizes around those of vectors: every
// device computes, untuned and with random moves, what plain loops do, and touches nothing outside of its
// buffers.
//   vector_edges_test [doctest options]
//   LATHE_EDGE_PROGRAMS  of each dtype and device (by default few, and fewer where compiling is slow)
//   LATHE_EDGE_DEVICE    one device alone
//   LATHE_EDGE_SEED      a number, or "fresh"
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/tensor_impl.hpp"
#include "support/devices.hpp"
#include "support/guarded_memory.hpp"
#include "support/kernel_check.hpp"
#include "support/run_plan.hpp"
#include "support/view_programs.hpp"
#include "support/walk.hpp"

using namespace lathe;
using test::PlainArray;
using test::ViewProgram;

namespace {

std::string environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

uint64_t first_seed() {
  const std::string text = environment("LATHE_EDGE_SEED", "1");
  static const uint64_t seed = text == "fresh" ? std::random_device()() : std::stoull(text);
  return seed;
}

int count_of_programs(int otherwise) {
  return std::stoi(environment("LATHE_EDGE_PROGRAMS", std::to_string(otherwise)));
}

std::vector<std::string> devices_to_test() {
  std::vector<std::string> names = present_devices();
  const std::string one = environment("LATHE_EDGE_DEVICE", "");
  if (!one.empty()) std::erase_if(names, [&](const std::string& name) { return name != one; });
  return names;
}

// What runs now, for the report of a program that touches what is not its own.
std::string running;
void say_what_runs(int signal_number) {
  if (write(STDERR_FILENO, running.data(), running.size()) < 0) std::_Exit(1);
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

size_t bytes_of(const PlainArray& a) { return static_cast<size_t>(a.count()) * size_of(a.dtype); }

void write_values(const PlainArray& a, unsigned char* out) {
  for (size_t i = 0; i < a.values.size(); ++i) {
    const int64_t v = a.values[i];
    const Scalar s =
        is_float(a.dtype) ? Scalar::of_float(a.dtype, static_cast<double>(v)) : Scalar::of_int(a.dtype, v);
    s.to_memory(out + i * size_of(a.dtype));
  }
}

/// Where `got` differs from what was expected; empty if nowhere.
std::string difference(const PlainArray& want, const unsigned char* got) {
  for (size_t i = 0; i < want.values.size(); ++i) {
    const Scalar s = Scalar::from_memory(want.dtype, got + i * size_of(want.dtype));
    const int64_t w = want.values[i];
    const bool same = is_float(want.dtype) ? s.as_float() == static_cast<double>(w)
                      : want.dtype == DType::Bool // a byte of another value is no bool
                          ? got[i] == static_cast<unsigned char>(w)
                          : s.as_int() == w;
    if (!same)
      return fmt::format("element {} of {} is {}, expected {}", i, want.values.size(), to_string(s), w);
  }
  return {};
}

/// The programs as one, compiled and run on the device; the difference of each.
std::vector<std::string> run_together(const std::vector<ViewProgram>& programs, const std::string& device,
                                      bool ends_there) {
  NamedTensors outputs;
  for (size_t i = 0; i < programs.size(); ++i) {
    const ViewProgram& p = programs[i];
    const Tensor x = Tensor::input(fmt::format("x{}", i), test::shape_of(p.input.shape), p.input.dtype);
    outputs[fmt::format("y{}", i)] = p.tensor(x, p.steps.size());
    running += p.text() + "\n";
  }
  const Executable program = compile(outputs, on(device));
  std::vector<std::unique_ptr<test::GuardedMemory>> memory;
  std::map<std::string, const void*> in;
  std::map<std::string, void*> out;
  for (size_t i = 0; i < programs.size(); ++i) {
    memory.push_back(std::make_unique<test::GuardedMemory>(bytes_of(programs[i].input), ends_there));
    write_values(programs[i].input, memory.back()->data());
    in[fmt::format("x{}", i)] = memory.back()->data();
    memory.push_back(std::make_unique<test::GuardedMemory>(bytes_of(programs[i].expected), ends_there));
    memory.back()->fill(0xA5);
    out[fmt::format("y{}", i)] = memory.back()->data();
  }
  std::erase_if(in, [&](const auto& entry) { // an input that no output needs is none
    const auto inputs = program.inputs();
    return std::none_of(inputs.begin(), inputs.end(),
                        [&](const KernelParam& p) { return p.name == entry.first; });
  });
  program.run(in, out);
  std::vector<std::string> differences;
  for (size_t i = 0; i < programs.size(); ++i)
    differences.push_back(difference(programs[i].expected, memory[2 * i + 1]->data()));
  running.clear();
  return differences;
}

/// What the fewest steps of the program show that differ by themselves; else the whole.
std::string shortest(const ViewProgram& program, const std::string& device, const std::string& whole) {
  for (size_t n = 1; n <= program.steps.size(); ++n)
    for (const bool ends_there : {true, false}) {
      const ViewProgram cut = program.cut(n);
      std::string found;
      try {
        found = run_together({cut}, device, ends_there)[0];
      } catch (const std::exception& error) {
        found = error.what();
      }
      if (!found.empty()) return cut.text() + found;
    }
  return program.text() + whole + " (only beside others)";
}

uint64_t seed_of(DType dtype, int i) {
  return static_cast<uint64_t>(i) * kDTypeCount + static_cast<uint64_t>(dtype);
}

/// How many programs of each dtype a device computes in a short run.
int quick_count(const std::string& device) { return device == "opencl" || device == "c" ? 1 : 8; }

/// All dtypes, but for a short run on OpenCL: PoCL takes most of a second for a kernel.
std::vector<DType> dtypes_for(const std::string& device) {
  const bool few = device == "opencl" && !std::getenv("LATHE_EDGE_PROGRAMS");
  if (few) return {DType::Bool, DType::I16, DType::F16, DType::F32};
  std::vector<DType> all;
  for (int d = 0; d < kDTypeCount; ++d) all.push_back(static_cast<DType>(d));
  return all;
}

/// The same by a plan with random moves; empty if it agrees.
std::string walk(const ViewProgram& program, uint64_t seed, runtime::Device& device,
                 const search::Target& target, std::string& moves) {
  const Tensor y = program.tensor(
      Tensor::input("x", test::shape_of(program.input.shape), program.input.dtype), program.steps.size());
  const auto lowered = std::make_shared<const lower::Program>(lower::lower({{"y", graph::node_of(y)}}));
  test::Memory memory;
  for (const auto& input : lowered->inputs) {
    memory[input.buffer->name].resize(bytes_of(program.input));
    write_values(program.input, memory[input.buffer->name].data());
  }
  test::Walker walker(seed, target);
  const search::Plan plan = walker.walk(search::initial_plan(lowered), 30);
  for (const auto& move : plan.moves()) moves += to_string(move) + "\n";
  running = program.text() + moves;
  memory = test::renamed(memory, *lowered, *plan.program);
  test::run_plan(plan, memory, &device);
  running.clear();
  const auto& output = *plan.program->stages[plan.program->outputs[0].stage].buffer;
  return difference(program.expected, memory.at(output.name).data());
}

/// x{a, b} * 3, zeros before it, cut into so many rows, and what their columns are reduced to.
ViewProgram padded_rows(DType dtype, int64_t a, int64_t b, int64_t before, int64_t rows, bool sums) {
  ViewProgram out{
      test::made(dtype, {a, b}, [&](const test::Place& p) { return (p[0] * b + p[1]) * 5 % 7; }), {}, {}};
  const std::vector<std::pair<int64_t, int64_t>> by{{before, 0}, {0, 0}};
  const int64_t columns = (a + before) * b / rows;
  out.steps.push_back({"x * 3", [](const Tensor& t) { return t * 3; },
                       [](const PlainArray& x) { return test::each(x, [](int64_t v) { return 3 * v; }); }});
  out.steps.push_back(
      {fmt::format("x.pad({{{{{}, 0}}, {{0, 0}}}}).reshape({{{}, {}}})", before, rows, columns),
       [=](const Tensor& t) { return t.pad(by).reshape({rows, columns}); },
       [=](const PlainArray& x) { return test::reshaped(test::padded(x, by, 0), {rows, columns}); }});
  out.steps.push_back(
      {sums ? "x.sum(Axes{0}, true).cast(x.dtype())" : "x.max(Axes{0}, true)",
       [=](const Tensor& t) { return sums ? t.sum(Axes{0}, true).cast(dtype) : t.max(Axes{0}, true); },
       [=](const PlainArray& x) {
         return test::folded(x, {0},
                             [=](int64_t v, int64_t w) { return sums ? test::added(v, w) : std::max(v, w); });
       }});
  return out.cut(out.steps.size());
}

/// A kernel over an array in registers: vectors and elements written, read in rows and columns, forwards and
/// backwards, with ends and guards, in loops and outside of them, all inside the array.
std::string register_kernel(DType dtype, std::mt19937_64& random) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  const int64_t size = 8 + below(120);
  std::string text =
      fmt::format("kernel k(x: {0}[256] in, y: {0}[512] out) {{\nalloc a: {0}[{1}] register {{\n"
                  "for z in {1} {{\na[z] = x[z]\n}}\n",
                  to_string(dtype), size);
  struct Lanes {
    int64_t width, extent, stride, first;
  };
  const auto lanes = [&](bool reads) {
    Lanes l{int64_t{2} << below(5), 0, 1, 0};
    l.extent = below(3) ? 1 + below(l.width) : l.width;
    if (below(2)) l.stride = below(2) ? l.width + below(5) : 1 + below(l.width + 3);
    if (!reads && below(4)) l.stride = 1;
    l.extent = std::min(l.extent, (size - 1) / l.stride + 1);
    const int64_t span = (l.extent - 1) * l.stride;
    l.first = below(4) ? below(size - span) : size - 1 - span; // often up to the very end
    if (below(6) == 0) {
      l.first += span;
      l.stride = -l.stride;
    }
    return l;
  };
  const auto place = [](const Lanes& l, const std::string& lane) {
    return fmt::format("{} * {} + {}", lane, l.stride, l.first);
  };
  int64_t out = 0;
  for (int n = 0; n < 8; ++n) {
    const std::string lane = fmt::format("l{}", n), head = "for " + lane;
    const Lanes l = lanes(below(2));
    const std::string loop = fmt::format("{} in {} vector({}) {{\n", head, l.extent, l.width);
    switch (below(7)) {
    case 0:
    case 1: text += fmt::format("{}a[{}] = x[{} + {}]\n}}\n", loop, place(l, lane), lane, below(100)); break;
    case 2: // rows, in a loop around
      if (const int64_t rows = 1 + below(4), apart = 1 + below(20); size - (rows - 1) * apart >= l.extent)
        text += fmt::format("for r{0} in {1} {{\n{2}a[r{0} * {3} + {4}] {5}= x[{4} + r{0} * 7]\n}}\n}}\n", n,
                            rows, loop, apart, lane, dtype == DType::Bool ? "|" : "+");
      break;
    case 3: text += fmt::format("a[{}] = x[{}]\n", below(size), below(200)); break;
    case 4: // guarded, by a row's end
      if (const int64_t end = 1 + below(l.extent); l.stride > 0)
        text +=
            fmt::format("{0}y[{1} + {2}] = a[{3}; {1} < {4}]\n}}\n", loop, lane, out, place(l, lane), end);
      break;
    default: text += fmt::format("{}y[{} + {}] = a[{}]\n}}\n", loop, lane, out, place(l, lane));
    }
    out += 64;
    if (out > 440) out = 0;
  }
  return text + "}\n}";
}

/// Kernels over a tile in registers whose places are all constant once its loops are unrolled, so that it
/// becomes variables: rows written by vectors, whole or not, and what lies past their ends one by one; then
/// columns and rows read, between stores that change some of it. The last row may end early.
std::string tile_kernel(DType dtype, std::mt19937_64& random) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  std::string text = fmt::format("kernel k(x: {0}[512] in, y: {0}[1024] out) {{\n", to_string(dtype));
  for (int tile = 0; tile < 3; ++tile) {
    const int64_t width = int64_t{2} << below(4), rows = 1 + below(width), apart = width + below(4);
    const int64_t extent = 1 + below(width), last = 1 + below(apart), size = (rows - 1) * apart + last;
    const auto name = [&](const char* what) { return fmt::format("{}{}", what, tile); };
    const std::string a = name("a"), l = name("l");
    std::vector<bool> written(static_cast<size_t>(size), false);
    text += fmt::format("alloc {}: {}[{}] register {{\n", a, to_string(dtype), size);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t here = std::min(extent, size - r * apart), from = below(300);
      text += fmt::format("for {0}r{1} in {2} vector({3}) {{\n{4}[{0}r{1} + {5}] = x[{0}r{1} + {6}]\n}}\n", l,
                          r, here, width, a, r * apart, from);
      for (int64_t i = 0; i < here; ++i) written[static_cast<size_t>(r * apart + i)] = true;
    }
    const bool rest = below(2);
    for (int64_t i = 0; i < size; ++i)
      if (rest && !written[static_cast<size_t>(i)]) {
        text += fmt::format("{}[{}] = x[{}]\n", a, i, below(500));
        written[static_cast<size_t>(i)] = true;
      }
    for (int n = 0; n < 6; ++n) {
      const int64_t column = below(apart), out = below(900);
      bool there = true;
      for (int64_t r = 0; r < rows; ++r)
        there &= r * apart + column < size && written[static_cast<size_t>(r * apart + column)];
      if (there)
        text += fmt::format(
            "for {0}c{1} in {2} vector({3}) {{\ny[{0}c{1} + {4}] = {5}[{0}c{1} * {6} + {7}]\n}}\n", l, n,
            rows, width, out, a, apart, column);
      const int64_t row = below(rows), here = std::min(extent, size - row * apart);
      text += fmt::format("for {0}s{1} in {2} vector({3}) {{\ny[{0}s{1} + {4}] = {5}[{0}s{1} + {6}]\n}}\n", l,
                          n, here, width, below(900), a, row * apart);
      if (below(2)) text += fmt::format("{}[{}] = x[{}]\n", a, row * apart + below(here), below(500));
    }
    text += "}\n";
  }
  return text + "}";
}

} // namespace

TEST_CASE("arrays in registers are read and written as the interpreter does") {
  std::mt19937_64 random(first_seed());
  for (const std::string& name : devices_to_test()) {
    if (name == "interp") continue;
    runtime::Device& device = runtime::device(name);
    // Compiling them is cheap where there is no other process to start.
    const int count = count_of_programs(quick_count(name)) * (name == "cpu" ? 4 : name == "c" ? 2 : 1);
    int wrong = 0, done = 0;
    for (const DType dtype : dtypes_for(name))
      for (int i = 0; i < count; ++i, ++done) {
        const bool tiles = (i + static_cast<int>(dtype)) % 2 == 0;
        const std::string text = tiles ? tile_kernel(dtype, random) : register_kernel(dtype, random);
        std::string failure;
        try {
          failure = test::compare(device, ast::parse(text));
          if (failure.empty()) failure = test::compare(device, test::finalised(ast::parse(text)));
        } catch (const std::exception& error) {
          failure = error.what();
        }
        if (failure.empty()) continue;
        if (++wrong <= 10) FAIL_CHECK(name << ": " << text << failure);
      }
    MESSAGE(name << ": " << done << " kernels of seed " << first_seed() << ", " << wrong << " wrong");
    CHECK(wrong == 0);
  }
}

TEST_CASE("sums and maxima of padded rows cut anew, whose last row is shorter than a vector") {
  const std::string device = default_device();
  for (const DType dtype : {DType::I32, DType::F16, DType::F64, DType::U8}) {
    std::vector<ViewProgram> programs;
    for (const int64_t a : {2, 3, 5, 8})
      for (const int64_t b : {2, 3, 7})
        for (const int64_t before : {1, 2})
          for (int64_t rows = 2; rows <= 4; ++rows)
            if ((a + before) * b % rows == 0)
              for (const bool sums : {true, false})
                programs.push_back(padded_rows(dtype, a, b, before, rows, sums));
    for (const ViewProgram& program : programs) {
      CAPTURE(program.text());
      CHECK(run_together({program}, device, true)[0] == "");
    }
    CHECK(programs.size() > 50);
  }
}

TEST_CASE("views at the edges of vectors, on every device, are what plain loops compute") {
  std::signal(SIGSEGV, say_what_runs);
  constexpr int kTogether = 8;
  for (const std::string& device : devices_to_test()) {
    const int count = count_of_programs(quick_count(device));
    int wrong = 0, done = 0;
    for (const DType dtype : dtypes_for(device))
      for (int first = 0; first < count; first += kTogether) {
        std::vector<ViewProgram> programs;
        for (int i = first; i < std::min(count, first + kTogether); ++i) {
          test::ViewProgramMaker maker(first_seed() * 1'000'003 + seed_of(dtype, i));
          programs.push_back(maker.make(dtype));
        }
        std::vector<std::string> differences(programs.size());
        try {
          differences = run_together(programs, device, first / kTogether % 2 == 0);
        } catch (const std::exception& error) {
          std::fill(differences.begin(), differences.end(), error.what());
        }
        running.clear();
        done += static_cast<int>(programs.size());
        for (size_t i = 0; i < programs.size(); ++i) {
          if (differences[i].empty()) continue;
          ++wrong;
          if (wrong <= 10) FAIL_CHECK(device << ": " << shortest(programs[i], device, differences[i]));
        }
      }
    MESSAGE(device << ": " << done << " programs of seed " << first_seed() << ", " << wrong << " wrong");
    CHECK(wrong == 0);
  }
}

TEST_CASE("the same by plans with random moves") {
  std::signal(SIGSEGV, say_what_runs);
  for (const std::string& name : devices_to_test()) {
    if (name == "interp") continue; // its walks are walk_test's
    runtime::Device& device = runtime::device(name);
    search::Target target;
    target.device = name;
    target.threads = 2;
    target.groups = name == "opencl";
    const int count = count_of_programs(quick_count(name));
    int wrong = 0, done = 0;
    for (const DType dtype : dtypes_for(name))
      for (int i = 0; i < count; ++i, ++done) {
        const uint64_t seed = first_seed() * 7'000'003 + seed_of(dtype, i);
        test::ViewProgramMaker maker(seed);
        const ViewProgram program = maker.make(dtype);
        std::string failure, moves;
        try {
          failure = walk(program, seed, device, target, moves);
        } catch (const std::exception& error) {
          failure = error.what();
        }
        running.clear();
        if (failure.empty()) continue;
        ++wrong;
        if (wrong <= 10) FAIL_CHECK(name << ": " << program.text() << moves << failure);
      }
    MESSAGE(name << ": " << done << " plans of seed " << first_seed() << ", " << wrong << " wrong");
    CHECK(wrong == 0);
  }
}
