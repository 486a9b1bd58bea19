// tensorise: loops of a product as one instruction, for each row of the instruction table that takes several
// elements.
#include <doctest/doctest.h>

#include "ast/machine/tensors.hpp"
#include "ast/tensor.hpp"
#include "search/cost/features.hpp"
#include "search/suggest/suggest.hpp"
#include "support/devices.hpp"
#include "support/run_plan.hpp"
#include "support/search_programs.hpp"

using namespace lathe;
using namespace lathe::search;

namespace {

std::vector<Instruction> tensor_rows() {
  std::vector<Instruction> rows;
  for (size_t i = 0; i < std::size(kInstructions); ++i)
    if (kInstructions[i].is_tensor()) rows.push_back(static_cast<Instruction>(i));
  return rows;
}

/// The target of tests, with one instruction.
Target target_with(Instruction instruction) {
  Target target = test::target();
  target.instructions = {instruction};
  return target;
}
ast::VectorForms forms_with(Instruction instruction) {
  ast::VectorForms forms;
  forms.instructions.push_back(instruction);
  return forms;
}

Tensor operand(const std::string& name, const Shape& shape, DType dtype, DType sum) {
  return Tensor::input(name, shape, dtype).cast(sum);
}

std::vector<unsigned char> random_bytes(DType dtype, int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> real;
  std::vector<unsigned char> bytes(static_cast<size_t>(count * size_of(dtype)));
  for (size_t i = 0; i < bytes.size(); i += size_of(dtype)) {
    const auto drawn = static_cast<int64_t>(random());
    const Scalar value = is_float(dtype)  ? Scalar::of_float(dtype, real(random))
                         : drawn % 3 == 0 ? Scalar::of_int(dtype, drawn % 2 == 0 ? -128 : 127)
                                          : Scalar::of_int(dtype, drawn);
    value.to_memory(&bytes[i]);
  }
  return bytes;
}

/// a[m, k] x b[k, n], everything but the product inlined. `constant`: b is; `batch`: so many products, each
/// of its own.
Plan product(const InstructionInfo& row, int64_t m, int64_t k, int64_t n, bool constant, int64_t batch = 1) {
  const auto shape = [&](int64_t rows, int64_t columns) {
    return batch > 1 ? Shape{batch, rows, columns} : Shape{rows, columns};
  };
  const std::vector<unsigned char> data = random_bytes(row.b, k * n, 5);
  const Tensor b =
      constant ? Tensor::from_memory(data.data(), static_cast<size_t>(k * n), row.b, {k, n}).cast(row.c)
               : operand("b", shape(k, n), row.b, row.c);
  const Tensor y = operand("a", shape(m, k), row.a, row.c).matmul(b);
  Plan plan = initial_plan(test::lowered(y));
  for (const auto& stage : plan.program->stages)
    if (!stage.is_reduction) {
      Applied applied = apply(plan, {{MoveKind::Inline, {StageHandle(stage.id)}}}, test::target());
      if (applied.plan) plan = std::move(*applied.plan);
    }
  REQUIRE(plan.kernels.size() == 1);
  return plan;
}

std::vector<Proposal> tiles(const Plan& plan, const Target& target) {
  Features features;
  read_features(plan.kernels[0]->kernel, target, features);
  const MachineProfile machine = test::machine();
  return suggest_tile({plan, *plan.kernels[0], features, target, machine, true, {}, true});
}

/// Integers of all values, floats of many sizes.
test::Memory inputs(const lower::Program& program, uint64_t seed) {
  test::Memory memory = test::random_inputs(program, seed);
  for (const auto& input : program.inputs)
    if (!input.is_constant)
      memory[input.buffer->name] =
          random_bytes(input.buffer->dtype, num_elements(input.buffer->shape).value(), ++seed);
  return memory;
}

bool names(const ast::Block& body, Instruction instruction) {
  bool found = false;
  ast::visit(body, [&](const ast::Stmt& stmt, const auto&) {
    const auto* store = std::get_if<ast::Store>(&stmt.node);
    found |= store && store->by == instruction;
  });
  return found;
}

runtime::Device* cpu_with(Instruction instruction) {
  runtime::Device& cpu = runtime::device("cpu");
  const Instructions present = cpu.instructions("native");
  return std::count(present.begin(), present.end(), instruction) > 0 ? &cpu : nullptr;
}

struct Size {
  int64_t m, k, n;
  bool constant;
};
constexpr Size kSizes[] = {{32, 64, 48, false},  {48, 128, 32, false}, {32, 64, 32, true},
                           {17, 65, 33, false},  {33, 67, 34, true},   {5, 19, 21, false},
                           {1, 130, 100, false}, {16, 5, 16, true},    {40, 100, 7, true}};

} // namespace

TEST_CASE("every tile of every instruction computes the product") {
  for (const Instruction instruction : tensor_rows()) {
    const InstructionInfo& row = info(instruction);
    INFO("instruction ", row.name);
    size_t proposed = 0, computed = 0;
    for (const auto& [m, k, n, constant] : kSizes) {
      INFO("product ", m, " x ", k, " x ", n, ", b constant: ", constant);
      if (constant && row.b == DType::U8) continue; // the graph makes constants i8
      const Plan plain = product(row, m, k, n, constant);
      test::Memory memory = inputs(*plain.program, 7 * m + n);
      test::Memory want = memory;
      test::run_plan(plain, want, nullptr);
      const auto check = [&](const test::Memory& got) {
        CHECK(test::difference(*plain.program, got, want, k) == "");
      };
      for (const Proposal& p : tiles(plain, target_with(instruction))) {
        if (std::none_of(p.moves.begin(), p.moves.end(),
                         [](const Move& m) { return m.kind == MoveKind::Tensorise; }))
          continue;
        ++proposed;
        INFO(p.why);
        const Applied applied = apply(plain, p.moves, target_with(instruction));
        REQUIRE_MESSAGE(applied.plan, applied.reason);
        const ast::Kernel& kernel = applied.plan->kernels[0]->kernel;
        ast::verify(kernel);
        CHECK(ast::structural_hash(ast::parse(ast::print(kernel))) == ast::structural_hash(kernel));
        test::Memory scheduled = memory;
        test::run_plan(*applied.plan, scheduled, nullptr);
        check(scheduled);
        // In the machine form of a target that has the instruction, and of one that has not.
        const ast::VectorForms with = forms_with(instruction), without;
        runtime::Device& interp = runtime::device("interp");
        test::Memory as_instruction = memory, as_loops = memory;
        test::run_plan(*applied.plan, as_instruction, &interp, nullptr, &with);
        check(as_instruction);
        test::run_plan(*applied.plan, as_loops, &interp, nullptr, &without);
        check(as_loops);
        const ast::Kernel form = test::finalised(kernel, &with);
        CHECK(ast::structural_hash(ast::parse(ast::print(form))) == ast::structural_hash(form));
        computed += names(form.body, instruction);
        if (runtime::Device* cpu = cpu_with(instruction)) {
          test::Memory on_cpu = memory;
          test::run_plan(*applied.plan, on_cpu, cpu);
          CHECK(test::exact_difference(*plain.program, on_cpu, as_instruction) == "");
        }
      }
    }
    CHECK(proposed > 5);
    CHECK(computed == proposed);
  }
}

TEST_CASE("an operand that all lanes share is multiplied in 16 bits where its copy holds them") {
  for (const auto& [narrow, wide] : {std::pair(Instruction::PairU8I8, Instruction::PairI16I8),
                                     {Instruction::PairI8I8, Instruction::PairI16I8},
                                     {Instruction::PairI8U8, Instruction::PairI16U8},
                                     {Instruction::PairU8U8, Instruction::PairI16U8}}) {
    Target target = target_with(narrow);
    target.instructions.push_back(wide);
    ast::VectorForms forms = forms_with(narrow);
    forms.instructions.push_back(wide);
    runtime::Device* cpu = cpu_with(wide);
    INFO("instruction ", info(narrow).name);
    for (const auto& [m, k, n, constant] : kSizes) {
      if (constant && info(narrow).b == DType::U8) continue; // the graph makes constants i8
      INFO("product ", m, " x ", k, " x ", n, ", b constant: ", constant);
      // An operand along the lanes that is no constant is packed in a loop around the rows: there must be
      // one.
      const Plan plain = product(info(narrow), m, k, n, constant, constant ? 1 : 2);
      const test::Memory memory = inputs(*plain.program, 11 * m + n);
      test::Memory want = memory;
      test::run_plan(plain, want, nullptr);
      size_t widened = 0;
      for (const Proposal& p : tiles(plain, target)) {
        if (p.why.find("rows widened") == std::string::npos) continue;
        ++widened;
        INFO(p.why);
        const Applied applied = apply(plain, p.moves, target);
        REQUIRE_MESSAGE(applied.plan, applied.reason);
        const ast::Kernel& kernel = applied.plan->kernels[0]->kernel;
        ast::verify(kernel);
        CHECK(names(test::finalised(kernel, &forms).body, wide));
        test::Memory scheduled = memory;
        test::run_plan(*applied.plan, scheduled, nullptr);
        CHECK(test::exact_difference(*plain.program, scheduled, want) == "");
        if (!cpu) continue;
        test::Memory on_cpu = memory;
        test::run_plan(*applied.plan, on_cpu, cpu);
        CHECK(test::exact_difference(*plain.program, on_cpu, want) == "");
      }
      CHECK((widened > 0) == (m > 1));
    }
  }
}

TEST_CASE("what widen refuses") {
  const Plan plain = product(info(Instruction::PairU8I8), 64, 64, 32, false);
  const Target target = target_with(Instruction::PairU8I8);
  const std::string t = plain.kernels[0]->kernel.params.back().buffer->name;
  const auto reason = [&](const std::vector<std::string>& before, const std::string& move) {
    std::vector<Move> moves = plain.moves();
    for (const std::string& text : before) moves.push_back(parse_move(text));
    return apply(replay(plain.program, moves, target), parse_move(move), target).reason;
  };
  const auto names_it = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  const std::string pack = "pack(" + t + ", a, " + t + ".i0, packed)", copy = t + ".p0";
  CHECK(reason({pack}, "widen(" + copy + ")") == "");
  CHECK(reason({}, "widen(a)") == "widen(a): no kernel computes a");
  CHECK(
      names_it(reason({"accumulate(" + t + ", " + t + ".r2)"}, "widen(" + t + ".a0)"), "is no packed copy"));
  CHECK(
      names_it(reason({pack, "widen(" + copy + ")"}, "widen(" + copy + ")"), "holds no integers of 8 bits"));
  // Read as bytes, by what is no product.
  const Tensor bytes = Tensor::input("x", {40, 40}, DType::U8);
  const Plan moved = initial_plan(test::lowered(bytes.transpose().contiguous()));
  const std::string y = moved.kernels[0]->kernel.params.back().buffer->name;
  const Applied packed = apply(moved, {parse_move("pack(" + y + ", x, " + y + ".i0, packed)")}, target);
  REQUIRE_MESSAGE(packed.plan, packed.reason);
  CHECK(names_it(apply(*packed.plan, {parse_move("widen(" + y + ".p0)")}, target).reason,
                 "is not cast to 32 bits"));
}

TEST_CASE("C computes every instruction on vectors of bytes, where it is and where it is not") {
  if (!has_device("c")) return;
  runtime::Device& c = runtime::device("c");
  for (const Instruction instruction : tensor_rows()) {
    const InstructionInfo& row = info(instruction);
    if (row.is_tile() || is_float(row.a)) continue;
    INFO("instruction ", row.name);
    for (const int vector_bytes : {16, 32, 64}) {
      Target target = target_with(instruction);
      target.vector_bytes = vector_bytes;
      const int64_t m = 3, k = 67, n = vector_bytes + 5; // few rows: compilers take long over large tiles
      const Plan plain = product(row, m, k, n, false);
      test::Memory memory = inputs(*plain.program, static_cast<uint64_t>(vector_bytes)), want = memory;
      test::run_plan(plain, want, nullptr);
      std::vector<Proposal> proposed = tiles(plain, target);
      std::erase_if(proposed, [](const Proposal& p) {
        return std::none_of(p.moves.begin(), p.moves.end(),
                            [](const Move& m) { return m.kind == MoveKind::Tensorise; });
      });
      REQUIRE(!proposed.empty());
      const Applied applied = apply(plain, proposed[0].moves, target);
      REQUIRE_MESSAGE(applied.plan, applied.reason);
      const ast::Kernel kernel = test::finalised(applied.plan->kernels[0]->kernel);
      CHECK(c.source(kernel, {}).find(row.is_pair() ? "lathe_add_pairs_x" : "lathe_add_dots_x") !=
            std::string::npos);
      for (const char* cpu : {"x86-64", "native"}) {
        INFO("vectors of ", vector_bytes, " bytes, ", cpu);
        test::Memory got = memory;
        test::run_plan(*applied.plan, got, &c, nullptr, nullptr,
                       {.threads = 2, .cpu = cpu, .candidate = true});
        CHECK(test::exact_difference(*plain.program, got, want) == "");
      }
    }
  }
}

TEST_CASE("code for a CPU without an instruction does not have it") {
  const Tensor y =
      operand("a", {64, 128}, DType::U8, DType::I32).matmul(operand("b", {128, 64}, DType::I8, DType::I32));
  const auto assembly = [&](const std::string& cpu) {
    return emit({{"y", y}}, {.target = "asm", .compile = {.device = "cpu", .threads = 1, .cpu = cpu}});
  };
  const auto has = [](const std::string& text) {
    return text.find("vpdpbusd") != std::string::npos || text.find("tdpbusd") != std::string::npos;
  };
  const auto has_pairs = [](const std::string& text) { return text.find("vpmaddwd") != std::string::npos; };
  for (const char* cpu : {"x86-64", "x86-64-v2"}) {
    INFO(cpu);
    CHECK(runtime::device("cpu").instructions(cpu).empty());
    CHECK(!has(assembly(cpu)));
    CHECK(!has_pairs(assembly(cpu)));
  }
  for (const char* cpu : {"x86-64-v3", "x86-64-v4"}) {
    INFO(cpu);
    CHECK(!has(assembly(cpu)));
    CHECK(has_pairs(assembly(cpu)));
  }
  const Instructions native = runtime::device("cpu").instructions("native");
  CHECK(has(assembly("native")) == (std::count(native.begin(), native.end(), Instruction::DotU8I8) > 0));
}

TEST_CASE("what no instruction computes is refused") {
  const InstructionInfo& row = info(Instruction::DotU8I8);
  const Plan plain = product(row, 8, 64, 32, false);
  const std::string t = plain.kernels[0]->kernel.params.back().buffer->name;
  const auto reason = [&](const Plan& plan, const std::string& move, const Target& target) {
    return apply(plan, parse_move(move), target).reason;
  };
  const Target target = target_with(Instruction::DotU8I8);
  CHECK(reason(plain, "tensorise(" + t + ", " + t + ".i1, " + t + ".r2)", target)
            .find("does not lie in registers") != std::string::npos);
  std::vector<Move> moves = plain.moves();
  for (const std::string& text :
       {"split(" + t + ".i1, 16)", "split(" + t + ".r2, 4)",
        "reorder(" + t + ".i0, " + t + ".i1.o, " + t + ".r2.o, " + t + ".i1.i, " + t + ".r2.i)",
        "accumulate(" + t + ", " + t + ".r2.o)"})
    moves.push_back(parse_move(text));
  const Plan tiled = replay(plain.program, moves, target);
  const std::string move = "tensorise(" + t + ".a0, " + t + ".i1.i, " + t + ".r2.i)";
  CHECK(reason(tiled, move, target) == "");
  CHECK(reason(tiled, move, target_with(Instruction::DotBF16)).find("no instruction of cpu computes") !=
        std::string::npos);
  CHECK(reason(tiled, "tensorise(" + t + ".a0, " + t + ".r2.o, " + t + ".i1.i)", target)
            .find("are not the ones named, in their order") != std::string::npos);
  CHECK(reason(tiled, "tensorise(" + t + ".a0, " + t + ".i1.i)", target).find("takes two loops, or four") !=
        std::string::npos);
}
