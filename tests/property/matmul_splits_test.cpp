// Matmul 127x65x33 under every split of every loop, alone and with the inner loop vectorised or unrolled, on
// every device.
#include <Eigen/Dense>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "graph/tensor_impl.hpp"
#include "support/moves.hpp"
#include "support/run_plan.hpp"

using namespace lathe;

TEST_CASE("matmul 127x65x33 agrees with Eigen under every split of every loop") {
  constexpr int kM = 127, kN = 65, kK = 33;
  const Tensor y = Tensor::input("a", {kM, kK}).matmul(Tensor::input("b", {kK, kN}));
  auto program = std::make_shared<const lower::Program>(lower::lower({{"y", graph::node_of(y)}}));
  const test::Memory inputs = test::random_inputs(*program, 3);

  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto matrix = [&](const std::string& name, int rows, int columns) {
    for (const auto& input : program->inputs)
      if (std::get<graph::InputAttr>(input.node->attr).name == name)
        return Matrix(Eigen::Map<const Matrix>(
            reinterpret_cast<const float*>(inputs.at(input.buffer->name).data()), rows, columns));
    throw InternalError("no such input");
  };
  const Matrix expected = matrix("a", kM, kK) * matrix("b", kK, kN);

  // The product is computed in the reduction; the reduction is the last stage.
  search::Target target;
  search::Plan fused = search::initial_plan(program);
  for (const auto& stage : program->stages)
    if (!stage.is_reduction && !stage.is_output)
      if (auto applied = search::apply(fused, test::move("inline({})", stage.buffer->name), target);
          applied.plan)
        fused = *applied.plan;
  for (const auto& stage : program->stages)
    if (stage.is_reduction && !stage.is_output)
      if (auto applied =
              search::apply(fused, test::move("fuse_at({}, root, packed)", stage.buffer->name), target);
          applied.plan)
        fused = *applied.plan;
  REQUIRE(fused.kernels.size() == 1);

  int checked = 0;
  for (const char* name : {"interp", "c", "cpu", "opencl"}) {
    runtime::Device* device = nullptr;
    try {
      device = &runtime::device(name);
    } catch (const Error& error) {
      MESSAGE("skipped: " << error.what());
      continue;
    }
    // Every loop of the plan: those that initialise, multiply and add, and write the result.
    std::vector<search::LoopHandle> loops;
    for (const auto& kernel : fused.kernels)
      ast::visit(kernel->kernel.body, [&](const ast::Stmt& stmt, const auto&) {
        if (const auto* loop = std::get_if<ast::For>(&stmt.node))
          loops.push_back(kernel->handles.loop(*loop));
      });
    for (const search::LoopHandle loop : loops)
      for (int64_t factor : {2, 3, 4, 5, 7, 8, 16, 32, 64}) {
        const search::Move split{search::MoveKind::Split, {loop, factor}};
        std::vector<std::vector<search::Move>> variants{{split}};
        if (factor <= 16) variants.push_back({split, {search::MoveKind::Vectorise, {loop.inner()}}});
        for (const auto& moves : variants) {
          const auto applied = search::apply(fused, moves, target);
          if (!applied.plan) {
            const bool no_such_split = applied.reason.find("leaves nothing to split") != std::string::npos;
            const bool not_innermost = applied.reason.find("innermost") != std::string::npos;
            const bool expected_refusal = no_such_split || not_innermost;
            CHECK_MESSAGE(expected_refusal, applied.reason);
            continue;
          }
          test::Memory memory = inputs;
          test::run_plan(*applied.plan, memory, device);
          const auto* got = reinterpret_cast<const float*>(
              memory.at(program->stages[program->outputs[0].stage].buffer->name).data());
          const double error = (Eigen::Map<const Matrix>(got, kM, kN) - expected).cwiseAbs().maxCoeff();
          CHECK_MESSAGE(error <= 1.2e-7 * kK * 2, name << " " << to_string(moves[0]) << ": error " << error);
          ++checked;
        }
      }
  }
  MESSAGE(checked << " kernels");
  CHECK(checked >= 50);
}
