// Values stored with another axis innermost: which values belong together, the move, and that nothing but the
// order changes.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <random>

#include "compile/realise.hpp"
#include "compile/run/assemble.hpp"
#include "graph/forms/storage_order.hpp"
#include "graph/tensor_impl.hpp"
#include "lathe/executable.hpp"
#include "lower/program.hpp"
#include "search/beam/isolated.hpp"
#include "search/beam/order_search.hpp"
#include "search/beam/search.hpp"
#include "search/cost/cost.hpp"
#include "search/moves/plan.hpp"
#include "support/devices.hpp"
#include "support/moves.hpp"
#include "support/search_programs.hpp"

using namespace lathe;

namespace {

using ProgramRef = std::shared_ptr<const lower::Program>;

/// Small whole numbers, so that sums are exact in any order.
std::vector<float> whole(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> v(static_cast<size_t>(count));
  for (float& x : v) x = static_cast<float>(static_cast<int64_t>(random() % 7) - 3);
  return v;
}
Tensor weights(const std::vector<int64_t>& sizes, uint64_t seed) {
  int64_t count = 1;
  for (int64_t s : sizes) count *= s;
  return Tensor::from(whole(count, seed), Shape(sizes.begin(), sizes.end()));
}
Tensor image(const std::vector<int64_t>& sizes) {
  return Tensor::input("x", Shape(sizes.begin(), sizes.end()));
}

/// The stages whose values sums of products add up along an axis that is not innermost, with that axis.
std::vector<std::pair<std::string, int>> seeds_of(const lower::Program& program) {
  std::vector<std::pair<std::string, int>> seeds;
  for (const lower::Stage& stage : program.stages) {
    const auto summed = graph::summed_axis(stage.node);
    if (!summed || graph::is_innermost(summed->value, summed->axis)) continue;
    for (const lower::Stage& producer : program.stages)
      if (producer.node == summed->value) seeds.emplace_back(producer.buffer->name, summed->axis);
  }
  return seeds;
}

/// The plan with all such values reordered.
search::Plan reordered(const ProgramRef& program) {
  search::Plan plan = search::initial_plan(program);
  for (auto seeds = seeds_of(*program); !seeds.empty(); seeds = seeds_of(*plan.program)) {
    const auto applied =
        search::apply(plan, test::move("innermost({}, {})", seeds[0].first, seeds[0].second), {});
    REQUIRE_MESSAGE(applied.plan, applied.reason);
    plan = *applied.plan;
  }
  return plan;
}

std::vector<float> run(const Executable& f, const std::vector<float>& x) {
  int64_t count = 1;
  const std::vector<KernelParam> outputs = f.outputs();
  for (const Expr& e : outputs[0].shape) count *= e.value();
  std::vector<float> y(static_cast<size_t>(count), -1e30f);
  f.run({{"x", x.data()}}, {{"y", y.data()}});
  return y;
}

/// A map times a gate for each channel that all of the map decides, as squeeze-and-excite networks have it.
Tensor gated(const Tensor& x, Tensor (*gate)(const Tensor&)) {
  const Expr channels = x.shape()[1];
  const int64_t c = channels.value(), few = c / 4 + 1;
  const Tensor squeezed = x.sum({2, 3}, true).conv2d(weights({few, c, 1, 1}, 11)).relu();
  return x * gate(squeezed.conv2d(weights({c, few, 1, 1}, 12)));
}

struct Network {
  const char* name;
  std::vector<int64_t> input;
  Tensor (*make)(const Tensor& x);
};

Tensor bottleneck(const Tensor& x) {
  const Tensor a = x.conv2d(weights({5, 3, 1, 1}, 1), weights({5}, 2)).relu();
  const Tensor b = a.conv2d(weights({7, 5, 3, 3}, 3), weights({7}, 4), {.padding = {1}}).relu();
  const Tensor c = b.conv2d(weights({5, 7, 1, 1}, 5)) + a;
  return c.relu().conv2d(weights({2, 5, 1, 1}, 6));
}
Tensor pooled(const Tensor& x) {
  const Tensor a = x.conv2d(weights({4, 3, 3, 3}, 1), {}, {.stride = {2}}).relu();
  const Tensor b = a.max_pool2d({3}, {.stride = {2}, .padding = {1}});
  return b.conv2d(weights({6, 4, 1, 1}, 2)).relu().sum({2, 3}).matmul(weights({6, 3}, 3));
}
Tensor joined(const Tensor& x) {
  const Tensor a = x.conv2d(weights({5, 3, 1, 1}, 1)).relu(), b = x.conv2d(weights({2, 3, 1, 1}, 2)).relu();
  return concat({a, b}, 1).conv2d(weights({3, 7, 3, 3}, 3), {}, {.stride = {2, 1}, .padding = {1, 0}}).relu();
}
Tensor shuffled(const Tensor& x) {
  const Tensor a = x.conv2d(weights({6, 3, 1, 1}, 1)).relu();
  const Shape s = a.shape();
  const Tensor mixed =
      a.reshape({s[0], 2, 3, s[2], s[3]}).permute({0, 2, 1, 3, 4}).reshape({s[0], 6, s[2], s[3]});
  const Tensor deep = mixed.conv2d(weights({6, 1, 3, 3}, 2), {}, {.padding = {1}, .groups = 6}).relu();
  return deep.conv2d(weights({4, 3, 1, 1}, 3), weights({4}, 4), {.groups = 2})
      .relu()
      .conv2d(weights({3, 4, 1, 1}, 5));
}
Tensor transposed(const Tensor& x) {
  const Tensor a = x.conv2d(weights({4, 3, 1, 1}, 1)).flip({3});
  return a.conv_transpose2d(weights({4, 5, 2, 2}, 2), {}, {.stride = {2}})
      .relu()
      .conv2d(weights({2, 5, 1, 1}, 3));
}
Tensor excited(const Tensor& x) {
  const auto small = [](const Tensor& g) { return minimum(g.relu(), Tensor::full({}, 2.f)); };
  const Tensor a = gated(x.conv2d(weights({5, 3, 1, 1}, 1)).relu(), small);
  const Tensor b = a.conv2d(weights({4, 5, 1, 1}, 2)).relu() * a.max_pool2d({1}).sum(1, true);
  return gated(b, small).conv2d(weights({2, 4, 1, 1}, 3));
}
Tensor along_rows(const Tensor& x) {
  const Tensor a = (x.reshape({3, 35}) * 2.f).relu();
  return weights({4, 3}, 1).matmul(a); // sums run along the outer axis of a
}

const Network kNetworks[] = {
    {"bottleneck", {2, 3, 7, 5}, bottleneck}, {"bottleneck of one row", {1, 3, 1, 17}, bottleneck},
    {"pooled", {1, 3, 13, 11}, pooled},       {"joined", {2, 3, 5, 7}, joined},
    {"shuffled", {1, 3, 5, 6}, shuffled},     {"transposed", {1, 3, 4, 3}, transposed},
    {"along rows", {1, 3, 5, 7}, along_rows}, {"excited", {1, 3, 7, 5}, excited},
    {"two excited", {2, 3, 3, 4}, excited}};

} // namespace

TEST_CASE("what is added up along which axis") {
  const Tensor x = Tensor::input("x", {2, 4, 6, 5}), w = weights({8, 4, 1, 1}, 1);
  const auto last = [](const Tensor& y) {
    return graph::summed_axis(pipeline::lowered({{"y", y}})->stages.back().node);
  };
  const auto of_relu = last(x.relu().conv2d(w));
  REQUIRE(of_relu);
  CHECK(of_relu->axis == 1);
  CHECK(of_relu->terms == 4);
  CHECK(!last(x.conv2d(w)));                                       // the user's input is stored as it is
  CHECK(!last(x.relu().conv2d(Tensor::input("w", {8, 4, 1, 1})))); // and so are two computed operands
  CHECK(!last(x.relu().sum(1)));
  // A padded copy of integers is stored in 8 bits.
  const Tensor bytes = Tensor::input("b", {2, 4, 6, 5}, DType::U8).cast(DType::I32);
  const Tensor filters = weights({8, 4, 3, 3}, 1).cast(DType::I8).realise().cast(DType::I32);
  const auto of_bytes = last(bytes.conv2d(filters, {}, {.padding = {1}}));
  REQUIRE(of_bytes);
  CHECK(of_bytes->value->dtype == DType::U8);
  CHECK(of_bytes->axis == 1);
  CHECK(!last(bytes.conv2d(filters)));
  const auto product = last(x.relu().matmul(weights({5, 3}, 2)));
  REQUIRE(product);
  CHECK(graph::is_innermost(product->value, product->axis));
}

TEST_CASE("a family ends at sums of products, and outputs keep their order") {
  const ProgramRef program = pipeline::lowered({{"y", bottleneck(image({1, 3, 7, 5}))}});
  std::vector<graph::NodeRef> outputs;
  for (const auto& output : program->outputs) outputs.push_back(output.node);
  const graph::Families families(outputs);
  const auto seeds = seeds_of(*program);
  REQUIRE(!seeds.empty());
  for (const auto& [name, axis] : seeds) {
    CHECK(axis == 1);
    for (const lower::Stage& stage : program->stages) {
      if (stage.buffer->name != name) continue;
      for (const auto& [node, order] : families.around(stage.node, axis)) {
        CHECK(node != outputs[0].get());
        CHECK(order.size() == node->shape.size());
        std::vector<bool> seen(order.size(), false);
        for (int a : order) seen[static_cast<size_t>(a)] = true;
        CHECK(std::find(seen.begin(), seen.end(), false) == seen.end());
      }
    }
  }
  // The last sum is an output: it alone is still computed channel by channel.
  const search::Plan plan = reordered(program);
  for (const lower::Stage& stage : plan.program->stages) {
    if (stage.is_output || stage.node->shape.size() != 4 || stage.node->op == Op::Mul) continue;
    CAPTURE(to_string(stage.node->shape));
    const Expr channels = stage.node->shape[3];
    CHECK((channels == Expr(5) || channels == Expr(7)));
    CHECK(stage.node->shape[1].value() >= 7); // rows, perhaps padded
  }
  CHECK(plan.program->outputs[0].shape == Shape{1, 2, 7, 5});
}

TEST_CASE("of a product that is a value itself a sum reads the value alone") {
  const Tensor x = image({1, 8, 7, 5});
  const Tensor y = gated(x, [](const Tensor& g) { return g.sigmoid(); });
  const ProgramRef program = pipeline::lowered({{"y", y.conv2d(weights({6, 8, 1, 1}, 1))}});
  const graph::NodeRef sum = program->stages.back().node;
  const auto summed = graph::summed_axis(sum);
  REQUIRE(summed);
  CHECK(summed->value->op == Op::Mul);
  const std::vector<graph::NodeRef> stored = search::stored_around(sum);
  CHECK(stored == std::vector<graph::NodeRef>{sum, summed->value});
  CHECK(graph::summed_product(sum) != summed->value);
  CHECK(!graph::summed_product(summed->value));

  std::map<Op, int> ops;
  std::vector<Shape> read;
  for (const graph::NodeRef& node : graph::topological_order({search::isolated(sum)})) {
    ++ops[node->op];
    if (node->op == Op::Input && !std::get<graph::InputAttr>(node->attr).data) read.push_back(node->shape);
  }
  CHECK(ops[Op::Mul] == 1);
  CHECK(ops[Op::Reduce] == 1);
  CHECK(ops[Op::Exp2] + ops[Op::Div] + ops[Op::Add] == 0);
  CHECK(read == std::vector<Shape>{{1, 8, 7, 5}});

  // The most of products is no sum of products: what it reads is a value, too.
  const ProgramRef pooled = pipeline::lowered({{"y", y.max_pool2d({2})}});
  const graph::NodeRef most = pooled->stages.back().node;
  CHECK(!graph::summed_product(most));
  for (const graph::NodeRef& node : graph::topological_order({search::isolated(most)}))
    CHECK(node->op != Op::Mul);
}

TEST_CASE("values are the same in any order, to the bit") {
  for (const Network& network : kNetworks) {
    CAPTURE(network.name);
    const ProgramRef program = pipeline::lowered({{"y", network.make(image(network.input))}});
    int64_t count = 1;
    for (int64_t s : network.input) count *= s;
    const std::vector<float> x = whole(count, 9);
    const std::vector<float> expected = run(pipeline::build(search::initial_plan(program), on("interp")), x);
    const search::Plan plan = reordered(program);
    REQUIRE(!plan.moves().empty());
    for (const std::string device : {"interp", "c", "cpu"})
      if (has_device(device)) CHECK(run(pipeline::build(plan, on(device)), x) == expected);
    if (has_device("cpu")) { // and under whatever schedule the search finds for it
      CompileOptions options = on("cpu");
      for (const search::Move& m : plan.moves()) options.moves.push_back(search::to_string(m));
      CHECK(run(compile({{"y", network.make(image(network.input))}}, options), x) == expected);
      options.moves.clear();
      options.winograd = 0;
      CHECK(run(compile({{"y", network.make(image(network.input))}}, options), x) == expected);
    }
  }
}

TEST_CASE("the move says why it is not legal, replays, and comes before all others") {
  const ProgramRef program = pipeline::lowered({{"y", bottleneck(image({1, 3, 7, 5}))}});
  const search::Plan start = search::initial_plan(program);
  const auto [name, axis] = seeds_of(*program).front();
  const auto reason = [&](const std::vector<search::Move>& moves) {
    const auto applied = search::apply(start, moves, {});
    CHECK(!applied.plan);
    return applied.reason;
  };
  CHECK(reason({test::move("innermost({}, {})", "t999", 1)}).find("no stage t999") != std::string::npos);
  CHECK(reason({test::move("innermost({}, {})", name, 4)}).find("no axis 4") != std::string::npos);
  CHECK(reason({test::move("innermost({}, {})", name, 3)}).find("axis 3 is innermost") != std::string::npos);
  const std::string output = program->stages[static_cast<size_t>(program->outputs[0].stage)].buffer->name;
  CHECK(reason({test::move("innermost({}, {})", output, 2)}).find("its order is fixed") != std::string::npos);
  CHECK(reason({test::move("split({}, {})", name + ".i1", 2), test::move("innermost({}, {})", name, axis)})
            .find("before all other moves") != std::string::npos);

  const auto applied = search::apply(start, test::move("innermost({}, {})", name, axis), {});
  REQUIRE(applied.plan);
  const search::Plan again = search::replay(program, applied.plan->moves(), {});
  REQUIRE(again.kernels.size() == applied.plan->kernels.size());
  for (size_t k = 0; k < again.kernels.size(); ++k)
    CHECK(again.kernels[k]->hash == applied.plan->kernels[k]->hash);
  CHECK(search::to_string(search::parse_move("innermost(t3, t14, 1)")) == "innermost(t3, t14, 1)");
}

TEST_CASE("an order is found for a family that is one product") {
  // Neither the input's order nor that of the gate, [1, 256, 1, 1], is anyone's to choose.
  const Tensor x = image({1, 256, 5, 5});
  const Tensor y = gated(x, [](const Tensor& g) { return (g * 0.001f).sigmoid(); });
  const Tensor z = y.conv2d(weights({256, 256, 1, 1}, 1));
  const ProgramRef program = test::lowered(z);
  const search::Plan start = search::initial_plan(program);
  search::CostModel model(test::target(), test::machine());
  const auto order = search::suggest_order(start, model, {});
  REQUIRE(order);
  const auto seeds = seeds_of(*program);
  const std::string product = seeds.back().first;
  CHECK(*order == test::move("innermost({}, {})", product, 1));
  const auto applied = search::apply(start, *order, {});
  REQUIRE_MESSAGE(applied.plan, applied.reason);
  CHECK(search::search(*applied.plan, model, {}).predicted_seconds <
        search::search(start, model, {}).predicted_seconds);

  if (!has_device("cpu")) return;
  const std::vector<float> input = whole(256 * 25, 9);
  CompileOptions options = on("cpu");
  options.moves = {search::to_string(*order)};
  const std::vector<float> expected = run(compile({{"y", z}}, on("interp")), input),
                           got = run(compile({{"y", z}}, options), input);
  REQUIRE(got.size() == expected.size());
  for (size_t k = 0; k < got.size(); ++k) {
    CAPTURE(k);
    CHECK(std::abs(got[k] - expected[k]) <= 1e-3f + 1e-5f * std::abs(expected[k]));
  }
}

TEST_CASE("the search stores channels innermost where sums run along them, and leaves the rest alone") {
  if (!has_device("cpu")) return;
  const auto reorders = [](const Tensor& y) {
    CompileOptions options = on("cpu", 1);
    const std::vector<std::string> moves = compile({{"y", y}}, options).moves();
    return !moves.empty() && moves[0].rfind("innermost(", 0) == 0;
  };
  Tensor x = Tensor::input("x", {1, 64, 28, 28});
  for (int k = 0; k < 4; ++k)
    x = x.conv2d(Tensor::randn({64, 64, 1, 1}, static_cast<uint64_t>(k)).realise()).relu();
  CHECK(reorders(x));
  Tensor rows = Tensor::input("x", {32, 64});
  for (int k = 0; k < 3; ++k)
    rows = rows.matmul(Tensor::randn({64, 64}, static_cast<uint64_t>(k)).realise()).relu();
  CHECK(!reorders(rows));
}
