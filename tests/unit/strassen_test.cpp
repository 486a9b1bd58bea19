// Strassen's algorithm: what counts as a product of matrices, the values against sums in f64, its error, how
// far a NaN reaches, and the move.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "compile/realise.hpp"
#include "compile/run/assemble.hpp"
#include "graph/forms/strassen.hpp"
#include "lathe/executable.hpp"
#include "lower/program.hpp"
#include "search/beam/form_search.hpp"
#include "search/cost/cost.hpp"
#include "search/moves/plan.hpp"
#include "support/devices.hpp"
#include "support/moves.hpp"
#include "support/rounding.hpp"
#include "support/search_programs.hpp"

using namespace lathe;

namespace {

struct ProductSizes {
  int64_t batch, rows, terms, columns;
};

/// Products of an input and a constant.
struct Products {
  ProductSizes s;
  std::vector<float> x, w;
  explicit Products(const ProductSizes& sizes)
      : s(sizes), x(uniform(s.batch * s.rows * s.terms, 1)), w(uniform(s.batch * s.terms * s.columns, 2)) {}

  Tensor input() const { return Tensor::input("x", {s.batch, s.rows, s.terms}); }
  Tensor weights() const { return Tensor::from(w, {s.batch, s.terms, s.columns}); }
  Tensor result() const { return input().matmul(weights()); }
  size_t count() const { return static_cast<size_t>(s.batch * s.rows * s.columns); }

  std::vector<double> expected() const {
    std::vector<double> y;
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t i = 0; i < s.rows; ++i)
        for (int64_t j = 0; j < s.columns; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < s.terms; ++k)
            sum +=
                static_cast<double>(x[(b * s.rows + i) * s.terms + k]) * w[(b * s.terms + k) * s.columns + j];
          y.push_back(sum);
        }
    return y;
  }
};

using ProgramRef = std::shared_ptr<const lower::Program>;

ProgramRef folded(const Tensor& y) { return pipeline::lowered({{"y", y}}); } // constants folded

/// The name of the one product of a program; empty if there is none.
std::string product_of(const lower::Program& program) {
  std::string name;
  for (const lower::Stage& stage : program.stages)
    if (graph::read_product(stage.node)) name += stage.buffer->name;
  return name;
}

std::optional<graph::MatrixProduct> sizes_of(const Tensor& y) {
  const ProgramRef program = folded(y);
  for (const lower::Stage& stage : program->stages)
    if (auto p = graph::read_product(stage.node)) return p;
  return {};
}

search::Plan by_strassen(const ProgramRef& program, int levels) {
  auto applied = search::apply(search::initial_plan(program),
                               test::move("strassen({}, {})", product_of(*program), levels), {});
  REQUIRE_MESSAGE(applied.plan, applied.reason);
  return std::move(*applied.plan);
}

std::vector<float> run(const Executable& f, const Products& p) {
  std::vector<float> y(p.count(), std::numeric_limits<float>::quiet_NaN());
  f.run({{"x", p.x.data()}}, {{"y", y.data()}});
  return y;
}

} // namespace

TEST_CASE("what is a product of two matrices") {
  const Tensor x = Tensor::input("x", {6, 10}), w = Tensor::input("w", {10, 4});
  const auto plain = sizes_of(x.matmul(w).relu());
  REQUIRE(plain);
  CHECK(plain->batch == 1);
  CHECK(plain->rows == 6);
  CHECK(plain->terms == 10);
  CHECK(plain->columns == 4);
  const auto turned = sizes_of(Tensor::input("w", {4, 10}).matmul(x.transpose()));
  REQUIRE(turned);
  CHECK(turned->rows == 4);
  CHECK(turned->columns == 6);
  const auto several = sizes_of(Tensor::input("a", {3, 6, 10}).matmul(Tensor::input("b", {3, 10, 4})));
  REQUIRE(several);
  CHECK(several->batch == 3);
  // Axes that lie in memory as one are one: rows of several sequences, columns of an image.
  const auto tokens = sizes_of(Tensor::input("t", {3, 6, 10}).matmul(w));
  REQUIRE(tokens);
  CHECK(tokens->batch == 1);
  CHECK(tokens->rows == 18);
  const auto pixels = sizes_of(Tensor::input("p", {1, 10, 6, 8}).conv2d(Tensor::input("k", {4, 10, 1, 1})));
  REQUIRE(pixels);
  CHECK(pixels->rows == 4);
  CHECK(pixels->columns == 48);
  CHECK(!sizes_of(Tensor::input("t", {3, 6, 10}).permute({1, 0, 2}).matmul(w)));
  CHECK(graph::can_halve(*plain, 1));
  CHECK(!graph::can_halve(*plain, 2));
  CHECK(!graph::can_halve({1, 6, 4, 5}, 1));
  CHECK(graph::can_halve({3, 8, 4, 12}, 2));

  CHECK(!sizes_of(x.sum({1})));
  CHECK(!sizes_of(x.softmax(-1)));
  CHECK(!sizes_of((x * x).sum({1})));
  CHECK(!sizes_of(Tensor::input("i", {4, 4}, DType::I32).matmul(Tensor::input("j", {4, 4}, DType::I32))));
  CHECK(!sizes_of(Tensor::input("i", {1, 4, 8, 8}).conv2d(Tensor::input("k", {8, 4, 3, 3}))));
  const Var n("n", 1, 64);
  CHECK(!sizes_of(Tensor::input("s", {n, 10}).matmul(w)));
}

TEST_CASE("values in one level and two, weights that are known and that are given, on each device") {
  const ProductSizes all[] = {{1, 2, 2, 2},   {1, 6, 10, 34},  {3, 4, 8, 12},
                              {1, 16, 4, 68}, {2, 36, 20, 16}, {1, 4, 132, 4}};
  for (const ProductSizes& s : all) {
    const Products p(s);
    const std::vector<double> expected = p.expected();
    const ProgramRef known = folded(p.result());
    const ProgramRef given = folded(p.input().matmul(Tensor::input("w", {s.batch, s.terms, s.columns})));
    for (const int levels : {1, 2}) {
      CAPTURE(s.rows);
      CAPTURE(s.columns);
      CAPTURE(levels);
      if (!graph::can_halve({s.batch, s.rows, s.columns, s.terms}, levels)) continue;
      const search::Plan plan = by_strassen(known, levels), all_at_run_time = by_strassen(given, levels);
      CHECK(all_at_run_time.program->stages.size() > plan.program->stages.size());
      for (const std::string& device : present_devices()) {
        CAPTURE(device);
        CHECK(error_of(run(pipeline::build(plan, on(device)), p), expected) < 2e-6);
        std::vector<float> y(p.count(), std::numeric_limits<float>::quiet_NaN());
        pipeline::build(all_at_run_time, on(device))
            .run({{"x", p.x.data()}, {"w", p.w.data()}}, {{"y", y.data()}});
        CHECK(error_of(y, expected) < 2e-6);
      }
    }
  }
}

TEST_CASE("operands and results that lie in memory in other ways") {
  const Products p({1, 12, 20, 8});
  const std::vector<double> expected = p.expected();
  std::vector<float> turned(p.w.size());
  for (int64_t k = 0; k < 20; ++k)
    for (int64_t j = 0; j < 8; ++j)
      turned[static_cast<size_t>(j * 20 + k)] = p.w[static_cast<size_t>(k * 8 + j)];
  const Tensor x = Tensor::input("x", {12, 20}), w = Tensor::from(turned, {8, 20}).transpose();
  const Tensor y = x.matmul(w);
  const Tensor back = w.transpose().matmul(x.transpose()).transpose(); // rows and columns change places
  const Tensor tokens = x.reshape({3, 4, 20}).matmul(w);
  const Tensor image = w.reshape({1, 20, 2, 4}).conv2d(x.reshape({12, 20, 1, 1}));
  const Tensor split =
      x.reshape({12, 4, 5, 1}).expand({12, 4, 5, 8}) * w.reshape({1, 4, 5, 8}).expand({12, 4, 5, 8});
  for (const Tensor& same : {y, back, tokens, image, split.sum({1, 2})}) {
    const ProgramRef program = folded(same.contiguous());
    for (const int levels : {1, 2})
      CHECK(error_of(run(pipeline::build(by_strassen(program, levels), on("interp")), p), expected) < 2e-6);
  }
}

TEST_CASE("the stated errors over 512 terms, in f32 and f64") {
  const Products p({1, 64, 512, 64});
  const std::vector<double> expected = p.expected();
  const ProgramRef program = folded(p.result());
  const std::string device = default_device();
  const double direct =
      error_of(run(pipeline::build(search::initial_plan(program), on(device)), p), expected);
  const double one = error_of(run(pipeline::build(by_strassen(program, 1), on(device)), p), expected);
  const double two = error_of(run(pipeline::build(by_strassen(program, 2), on(device)), p), expected);
  CHECK(direct < 1.2e-6);
  CHECK(one < 1.5e-6);
  CHECK(two < 2.5e-6);

  // Every other row 1e4 times as large: the small ones lose digits to their neighbours.
  Products uneven = p;
  for (int64_t i = 0; i < 64; i += 2)
    for (int64_t k = 0; k < 512; ++k) uneven.x[static_cast<size_t>(i * 512 + k)] *= 1e4F;
  const std::vector<double> all = uneven.expected();
  const auto of_small_rows = [&](const search::Plan& plan) {
    const std::vector<float> y = run(pipeline::build(plan, on(device)), uneven);
    std::vector<float> small;
    std::vector<double> wanted;
    for (size_t k = 0; k < y.size(); ++k)
      if (k / 64 % 2 == 1) small.push_back(y[k]), wanted.push_back(all[k]);
    return error_of(small, wanted);
  };
  CHECK(of_small_rows(search::initial_plan(program)) < 1.2e-6);
  const double lost = of_small_rows(by_strassen(program, 1));
  CHECK(lost > 1e-4);
  CHECK(lost < 2e-2);

  std::vector<double> x(p.x.begin(), p.x.end()), y(p.count());
  const std::vector<double> w(p.w.begin(), p.w.end());
  const ProgramRef wide =
      folded(Tensor::input("x", {1, 64, 512}, DType::F64).matmul(Tensor::from(w, {1, 512, 64})));
  pipeline::build(by_strassen(wide, 2), on(device)).run({{"x", x.data()}}, {{"y", y.data()}});
  for (size_t k = 0; k < y.size(); ++k) CHECK(y[k] == doctest::Approx(expected[k]).epsilon(1e-10));
}

TEST_CASE("a NaN may reach the other row of its pair, or the column half of them away, and no further") {
  const ProductSizes s{1, 8, 6, 10};
  Products p(s);
  const auto spoilt = [&](const Products& with, int64_t row, int64_t column) {
    const std::vector<float> y =
        run(pipeline::build(by_strassen(folded(with.result()), 1), on("interp")), with);
    int64_t outside = 0, own = 0, beside = 0;
    for (int64_t i = 0; i < s.rows; ++i)
      for (int64_t j = 0; j < s.columns; ++j) {
        const bool is_near = row >= 0 ? i / 2 == row / 2 : j % (s.columns / 2) == column % (s.columns / 2);
        const bool is_own = row >= 0 ? i == row : j == column;
        (is_own ? own : is_near ? beside : outside) += std::isnan(y[static_cast<size_t>(i * s.columns + j)]);
      }
    CHECK(own == (row >= 0 ? s.columns : s.rows)); // as of a plain sum
    CHECK(beside > 0);
    CHECK(outside == 0);
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Products in_row = p, in_column = p;
  in_row.x[static_cast<size_t>(3 * s.terms + 4)] = nan; // of the last block, which four products read
  spoilt(in_row, 3, -1);
  in_column.w[static_cast<size_t>(4 * s.columns + 7)] = nan;
  spoilt(in_column, -1, 7);
}

TEST_CASE("the move comes first, replays, and says why it is not legal") {
  const Products p({1, 12, 20, 8});
  const ProgramRef program = folded(p.result().relu());
  const search::Plan start = search::initial_plan(program);
  const std::string name = product_of(*program);
  const auto reason = [&](const std::vector<search::Move>& moves) {
    const auto applied = search::apply(start, moves, {});
    CHECK(!applied.plan);
    return applied.reason;
  };
  CHECK(reason({test::move("strassen({}, {})", name, 0)}).find("one level") != std::string::npos);
  CHECK(reason({test::move("strassen({}, {})", name, 3)}).find("one level") != std::string::npos);
  CHECK(reason({test::move("strassen({}, {})", "t99", 1)}).find("no stage t99") != std::string::npos);
  for (const lower::Stage& stage : program->stages)
    if (stage.buffer->name != name)
      CHECK(reason({test::move("strassen({}, {})", stage.buffer->name, 1)}).find("no product") !=
            std::string::npos);
  CHECK(reason({search::parse_move("split(" + name + ".i1, 4)"), test::move("strassen({}, {})", name, 1)})
            .find("before all other moves") != std::string::npos);
  const Products odd({1, 12, 10, 8});
  const ProgramRef of_odd = folded(odd.result());
  const auto refused =
      search::apply(search::initial_plan(of_odd), test::move("strassen({}, {})", product_of(*of_odd), 2), {});
  CHECK(refused.reason.find("10 terms are not multiples of 4") != std::string::npos);

  const search::Plan made = by_strassen(program, 2);
  const search::Plan again = search::replay(program, made.moves(), {});
  REQUIRE(again.kernels.size() == made.kernels.size());
  for (size_t k = 0; k < again.kernels.size(); ++k) CHECK(again.kernels[k]->hash == made.kernels[k]->hash);
  CHECK(search::to_string(search::parse_move("strassen(t3, t9, 1)")) == "strassen(t3, t9, 1)");
}

/// The moves that rewrite the graph, of the plan found by the model of a machine that is the same everywhere.
std::vector<search::Move> forms_found(const Tensor& y, int most_levels) {
  search::CostModel model(test::target(), test::machine());
  search::AllowedForms allowed;
  allowed.strassen = most_levels;
  std::vector<search::Move> moves =
      search::search_forms(search::initial_plan(folded(y)), model, {}, allowed, {}).plan.moves();
  std::erase_if(moves, [](const search::Move& m) { return !search::rewrites_graph(m.kind); });
  return moves;
}

TEST_CASE("the search takes as many levels as are allowed and pay, for each product by itself") {
  const Tensor large = test::in("x", {256, 256}).matmul(test::in("w", {256, 256}));
  CHECK(forms_found(large, 0).empty());
  const auto one = forms_found(large, 1);
  REQUIRE(one.size() == 1);
  CHECK(one[0].kind == search::MoveKind::Strassen);
  CHECK(one[0].arguments.back() == search::Argument(int64_t{1}));
  CHECK(forms_found(large, 2) == one); // too small for a second
  const auto two = forms_found(test::in("x", {2048, 2048}).matmul(Tensor::zeros({2048, 2048}).realise()), 2);
  REQUIRE(two.size() == 1);
  CHECK(two[0].arguments.back() == search::Argument(int64_t{2}));
  CHECK(forms_found(test::in("x", {24, 256}).matmul(test::in("w", {256, 256})), 1).empty());

  // Of three products one has an odd number of columns, and two are alike.
  const Tensor like = test::in("z", {256, 256}).matmul(test::in("v", {256, 256}));
  const auto several =
      forms_found(large.relu().matmul(test::in("u", {256, 255})).sum({1}) + like.sum({1}), 1);
  REQUIRE(several.size() == 1);
  CHECK(several[0].arguments.size() == 3);
}

TEST_CASE("a compiled program has it only if asked to, replays its moves, and knows two levels at most") {
  const Products p({1, 64, 32, 64});
  const NamedTensors program{{"y", p.result()}};
  CompileOptions options = on(default_device(), 1);
  const auto uses_it = [](const Executable& f) {
    const std::vector<std::string> moves = f.moves();
    return !moves.empty() && moves[0].starts_with("strassen(");
  };
  CHECK(!uses_it(compile(program, options)));
  options.moves = {"strassen(" + product_of(*folded(p.result())) + ", 2)"};
  const Executable asked = compile(program, options);
  CHECK(uses_it(asked));
  CHECK(error_of(run(asked, p), p.expected()) < 2e-6);
  options.moves.clear();
  for (const int wrong : {-1, 3}) {
    options.strassen = wrong;
    CHECK_THROWS_WITH_AS(compile(program, options), doctest::Contains("strassen"), Error);
  }
}
