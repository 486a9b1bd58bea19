// Every rule of the graph keeps every value: tried over small ranges and special values for each dtype of its
// domain.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>

#include "graph/rules.hpp"
#include "graph/tensor_impl.hpp"
#include "support/graph_eval.hpp"
#include "support/graph_nodes.hpp"

using namespace lathe;
using namespace lathe::graph;
using test::f32_input;

namespace {

std::vector<Scalar> samples(DType d) {
  std::vector<Scalar> out;
  if (d == DType::Bool) return {Scalar::of_int(d, 0), Scalar::of_int(d, 1)};
  for (int i = -3; i <= 3; ++i) out.push_back(Scalar::of_int(d, i));
  if (is_float(d)) {
    const double infinity = std::numeric_limits<double>::infinity();
    for (double v : {-0.0, 0.5, -1.75, 70000.0, infinity, -infinity, std::nan("")})
      out.push_back(Scalar::of_float(d, v));
  } else {
    for (int64_t v : {INT64_MIN, INT64_MAX, int64_t{1} << 31, int64_t{255}, int64_t{-300}})
      out.push_back(Scalar::of_int(d, v));
  }
  return out;
}

// The dtype of each letter of a side whose last operand at the root is of `d`: the first operand of Where is
// bool, and so are the operands of a Where's condition.
void letter_types(const RuleSide& side, int at, DType d, std::array<DType, kLetterCount>& types) {
  const RuleTerm& t = side.terms[at];
  if (t.kind == RuleTerm::Any || t.kind == RuleTerm::Constant) types[t.letter] = d;
  if (t.kind != RuleTerm::Apply) return;
  int child = at + 1;
  for (int i = 0; i < t.arity; ++i) {
    letter_types(side, child, t.op == Op::Where && i == 0 ? DType::Bool : d, types);
    child = side.terms[child].end;
  }
}

struct Letters {
  std::array<NodeRef, kLetterCount> node;
  std::array<DType, kLetterCount> type{};
};

NodeRef build(const RuleSide& side, int at, DType d, const Letters& letters, DType inner_cast,
              DType outer_cast) {
  const RuleTerm& t = side.terms[at];
  if (t.kind == RuleTerm::Number) return constant(Scalar::of_int(d, t.number), {1});
  if (t.kind != RuleTerm::Apply) return letters.node[t.letter];
  std::vector<NodeRef> sources;
  int child = at + 1;
  for (int i = 0; i < t.arity; ++i) {
    sources.push_back(
        build(side, child, t.op == Op::Where && i == 0 ? DType::Bool : d, letters, inner_cast, inner_cast));
    child = side.terms[child].end;
  }
  return GraphTraits::make(t.op, outer_cast, std::move(sources), {});
}

bool same_value(const Scalar& a, const Scalar& b) {
  if (is_float(a.dtype()) && std::isnan(a.as_float()) && std::isnan(b.as_float())) return true;
  return a == b;
}

Scalar value_of(const NodeRef& node, const test::Bindings& b) {
  return Scalar::from_memory(node->dtype, test::evaluate_graph({node}, b)[0]->data());
}

// Tries one rule with all samples of its letters; returns how often it applied.
int try_rule(const GraphRule& rule, DType d, DType inner, DType outer) {
  static const RuleEngine<GraphTraits> engine("test", graph_rules());
  Letters letters;
  letter_types(rule.left, 0, d, letters.type);
  std::vector<int> used;
  std::vector<bool> is_constant(kLetterCount);
  for (int i = 0; i < rule.left.count; ++i) {
    const RuleTerm& t = rule.left.terms[i];
    if (t.kind != RuleTerm::Any && t.kind != RuleTerm::Constant) continue;
    if (std::find(used.begin(), used.end(), t.letter) == used.end()) used.push_back(t.letter);
    is_constant[t.letter] = t.kind == RuleTerm::Constant;
  }
  const RuleEngine<GraphTraits> alone("alone", std::span(&rule, 1));
  int applied = 0;
  std::vector<size_t> choice(used.size());
  while (true) {
    test::Bindings bindings;
    for (size_t k = 0; k < used.size(); ++k) {
      const DType type = letters.type[used[k]];
      const Scalar s = samples(type)[choice[k]];
      if (is_constant[used[k]]) {
        letters.node[used[k]] = constant(s, {1});
      } else {
        const std::string name(1, static_cast<char>('a' + used[k]));
        letters.node[used[k]] = input(name, type, {1});
        auto& bytes = bindings.inputs[name];
        bytes.resize(size_of(type));
        s.to_memory(bytes.data());
      }
    }
    const NodeRef before = build(rule.left, 0, d, letters, inner, outer);
    if (const auto after = alone.step(before)) {
      ++applied;
      CHECK((*after)->dtype == before->dtype);
      CHECK((*after)->shape == before->shape);
      const Scalar x = value_of(before, bindings), y = value_of(*after, bindings);
      INFO(rule.name, " over ", to_string(d), ": ", print({before}));
      CHECK_MESSAGE(same_value(x, y), to_string(x), " became ", to_string(y));
    }
    size_t k = 0;
    for (; k < used.size(); ++k) {
      if (++choice[k] < samples(letters.type[used[k]]).size()) break;
      choice[k] = 0;
    }
    if (k == used.size()) return applied;
  }
}

constexpr DType kAll[] = {DType::Bool, DType::I8,  DType::I16, DType::I32,  DType::I64, DType::U8, DType::U16,
                          DType::U32,  DType::U64, DType::F16, DType::BF16, DType::F32, DType::F64};

bool fits_every_op(const RuleSide& side, DType d) {
  for (int i = 0; i < side.count; ++i)
    if (side.terms[i].kind == RuleTerm::Apply && side.terms[i].op != Op::Where &&
        side.terms[i].op != Op::Xor && !accepts(info(side.terms[i].op).dtypes, d))
      return false;
  return true;
}

} // namespace

TEST_CASE("every rule keeps every value") {
  std::set<std::string> names;
  for (const GraphRule& rule : graph_rules()) {
    CHECK_MESSAGE(names.insert(rule.name).second, rule.name);
    const Op root = rule.left.terms[0].op;
    int applied = 0;
    for (DType d : kAll) {
      if (!in_domain(rule.domain, d) || !fits_every_op(rule.left, d)) continue;
      if (root == Op::Cast) {
        for (DType inner : kAll)
          for (DType outer : kAll) applied += try_rule(rule, d, inner, outer);
      } else if (root == Op::Bitcast) {
        for (DType inner : kAll)
          for (DType outer : kAll)
            if (d != DType::Bool && inner != DType::Bool && outer != DType::Bool &&
                size_of(d) == size_of(inner) && size_of(d) == size_of(outer))
              applied += try_rule(rule, d, inner, outer);
      } else {
        applied += try_rule(rule, d, d, d);
      }
    }
    CHECK_MESSAGE(applied > 0, rule.name, " never applied");
  }
}

TEST_CASE("what would change a value stays") {
  const NodeRef x = f32_input("x"), zero = constant(Scalar::of_float(DType::F32, 0), {4});
  for (const NodeRef& n :
       {binary(Op::Add, x, zero), binary(Op::Mul, x, zero), binary(Op::Add, x, unary(Op::Neg, x)),
        binary(Op::CmpNe, x, x), binary(Op::Div, x, x), cast(cast(x, DType::I32), DType::F32),
        cast(cast(x, DType::F16), DType::F32)})
    CHECK(simplify({n})[0] == n);
  const NodeRef i = input("i", DType::I16, {4});
  const NodeRef saturates = cast(cast(i, DType::F32), DType::U8);
  CHECK(simplify({saturates})[0] == saturates);
}

TEST_CASE("rules reach a fixed point through a graph") {
  const NodeRef i = input("i", DType::I32, {4}), one = constant(Scalar::of_int(DType::I32, 1), {4});
  NodeRef x = i;
  for (int k = 0; k < 100; ++k) x = binary(Op::Add, x, one);
  CHECK(simplify({x})[0] == binary(Op::Add, i, constant(Scalar::of_int(DType::I32, 100), {4})));
  const NodeRef y = binary(Op::Mul, unary(Op::Neg, unary(Op::Neg, i)),
                           binary(Op::Add, one, binary(Op::Add, i, unary(Op::Neg, i))));
  CHECK(simplify({y})[0] == i);
}

TEST_CASE("reductions of reductions, constants and repeated elements") {
  const NodeRef x = f32_input("x", {3, 4, 5});
  CHECK(simplify({reduce(Op::Max, reduce(Op::Max, x, {2}), {0})})[0] == reduce(Op::Max, x, {0, 2}));
  const NodeRef sums = reduce(Op::Add, reduce(Op::Add, x, {2}), {0});
  CHECK(simplify({sums})[0] == sums); // would add in another order
  const NodeRef i = input("i", DType::I64, {3, 4});
  CHECK(simplify({reduce(Op::Add, reduce(Op::Add, i, {1}), {0})})[0] == reduce(Op::Add, i, {0, 1}));
  CHECK(simplify({reduce(Op::Max, constant(Scalar::of_int(DType::I32, 7), {3}), {0})})[0] ==
        constant(Scalar::of_int(DType::I32, 7), {1}));
  const NodeRef row = f32_input("row", {1, 4});
  const NodeRef repeated = view(row, View::contiguous({1, 4}).expand({3, 4}));
  CHECK(simplify({reduce(Op::Max, repeated, {0})})[0] == row);
  CHECK(simplify({reduce(Op::Max, repeated, {0, 1})})[0] == reduce(Op::Max, row, {1}));
  CHECK(simplify({reduce(Op::Add, repeated, {0})})[0] == reduce(Op::Add, repeated, {0}));
  // Padding among the copies has a say, too: in front, behind, and along the other axis.
  for (const auto& [before, after] : {std::pair<std::vector<Expr>, std::vector<Expr>>{{1, 0}, {0, 0}},
                                      {{0, 0}, {2, 0}},
                                      {{1, 0}, {1, 1}}}) {
    const NodeRef padded = view(repeated, View::contiguous({3, 4}).pad(before, after));
    const NodeRef most = reduce(Op::Max, padded, {0});
    CHECK(simplify({most})[0] == most);
  }
  const NodeRef beside = view(repeated, View::contiguous({3, 4}).pad({0, 1}, {0, 0}));
  CHECK(simplify({reduce(Op::Max, beside, {0})})[0] ==
        view(row, View::contiguous({1, 4}).pad({0, 1}, {0, 0})));
  CHECK(simplify({contiguous(reduce(Op::Max, row, {1}))})[0] == reduce(Op::Max, row, {1}));
}

TEST_CASE("what a view repeats is computed once") {
  const NodeRef row = f32_input("row", {1, 4}), other = f32_input("other", {1, 4}),
                full = f32_input("full", {3, 4});
  const auto repeat = [](const NodeRef& n) { return view(n, View::contiguous({1, 4}).expand({3, 4})); };
  CHECK(simplify({unary(Op::Sqrt, repeat(row))})[0] == repeat(unary(Op::Sqrt, row)));
  CHECK(simplify({binary(Op::Add, repeat(row), repeat(other))})[0] == repeat(binary(Op::Add, row, other)));
  const NodeRef mixed = binary(Op::Add, repeat(row), full);
  CHECK(simplify({mixed})[0] == mixed);
  // A repetition that is padded is not one.
  const NodeRef padded = view(repeat(row), View::contiguous({3, 4}).pad({1, 0}, {0, 0}));
  const NodeRef root = unary(Op::Sqrt, padded);
  CHECK(simplify({root})[0] == root);
}

TEST_CASE("rewrites are counted and traced") {
  const auto hits_of = [](std::string_view name) {
    for (const auto& [rule, hits] : simplify_hits())
      if (rule == name) return hits;
    return ~uint64_t{0};
  };
  const NodeRef x = f32_input("x");
  const NodeRef y = unary(Op::Neg, unary(Op::Neg, x));
  const uint64_t before = hits_of("neg-neg");
  std::vector<std::string> seen;
  simplify({y}, [&](std::string_view rule, const NodeRef& from, const NodeRef& to) {
    seen.emplace_back(rule);
    CHECK(from == y);
    CHECK(to == x);
  });
  CHECK(seen == std::vector<std::string>{"neg-neg"});
  CHECK(hits_of("neg-neg") == before + 1);
}

TEST_CASE("simplified programs compute the same") {
  set_realiser(&test::realise_by_evaluation);
  const Tensor x = Tensor::from(std::vector<float>{-1.5f, 0, -0.0f, 3, INFINITY, NAN}, {2, 3});
  for (const Tensor& t :
       {x.softmax(1), x.tanh(), x.round(), x.cast(DType::F16).cast(DType::F64), x.argmax(1), x.sort(1),
        x.gelu(), x.pad({{1, 0}, {0, 1}}, 2), x.clamp(-1, 1), pow(x, x.abs()), (x * 1.0f - 0.0f),
        (x.abs() + 1).neg().unsqueeze(1).expand({2, 4, 3}).pad({{0, 0}, {1, 0}, {0, 0}}).max(1)}) {
    const NodeRef node = node_of(t);
    const StorageRef before = test::evaluate_graph({node})[0],
                     after = test::evaluate_graph(simplify({node}))[0];
    for (int64_t i = 0; i < num_elements(node->shape).value(); ++i) {
      const auto at = [&](const StorageRef& s) {
        return Scalar::from_memory(node->dtype,
                                   static_cast<const unsigned char*>(s->data()) + i * size_of(node->dtype));
      };
      CHECK(same_value(at(before), at(after)));
    }
  }
}
