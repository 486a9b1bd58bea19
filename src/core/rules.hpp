// The rewrite-rule engine: tables of named rules, matched at a node of any DAG of table ops by one ordinary
// function.
//
// A DAG takes part through a traits type:
//   struct Traits {
//     using Node = NodeRef;                               // a cheap handle with ==
//     static Op op(const Node&);
//     static DType dtype(const Node&);
//     static size_t source_count(const Node&);
//     static const Node& source(const Node&, size_t i);
//     static const Scalar* constant(const Node&);         // null unless the node is a constant
//     static Node number(const Scalar&, const Node& root);               // a constant, shaped like the root
//     static Node make(Op, DType, std::vector<Node>, const Node& root);  // as its builder makes it
//   };
// A table is a constexpr array, and the engine an object over it that lives as long as the program:
//   constexpr Rule<Traits> kRules[] = {
//       {"add-zero", RuleDomain::Integer, "Add(a, 0)", "a"},
//       {"mul-pow2", RuleDomain::Integer, "Mul(a, A)", "Shl(a, B)", &is_power_of_two}, // error: B is unbound
//   };
//   static RuleEngine<Traits> engine("graph", kRules);
//   node = engine.rewrite(node);   // until no rule matches at this node
// Thread-safe. The caller walks the DAG (iteratively, sources first) and passes each node after its sources.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/rule_text.hpp"
#include "lathe/error.hpp"

namespace lathe {

/// Which node each letter stands for in a match.
template <class Traits> struct RuleMatch {
  std::array<const typename Traits::Node*, kLetterCount> letters{}; // sources of the root, which outlives this
  const typename Traits::Node& operator[](char letter) const { return *letters[letter_slot(letter)]; }
};

template <class Traits> struct Rule {
  using Condition = bool (*)(const typename Traits::Node& root, const RuleMatch<Traits>&);
  const char* name;
  RuleDomain domain;
  const char* pattern;
  const char* replacement;
  Condition when; // null: always
  RuleSide left, right;

  consteval Rule(const char* n, RuleDomain d, const char* p, const char* r, Condition w = nullptr)
      : name(n), domain(d), pattern(p), replacement(r), when(w), left(rule_text::read(p)),
        right(rule_text::read(r)) {
    if (left.terms[0].kind != RuleTerm::Apply) throw "the pattern of a rule must begin with an op";
    if (right.letters & ~left.letters)
      throw "the replacement of a rule has a letter that its pattern does not bind";
  }
};

template <class Traits> class RuleEngine {
public:
  using Node = typename Traits::Node;
  using Trace = std::function<void(const Rule<Traits>&, const Node& before, const Node& after)>;

  /// `rules` must outlive the engine; of several that match the first in the table wins.
  RuleEngine(std::string name, std::span<const Rule<Traits>> rules, int limit = 256)
      : name_(std::move(name)), rules_(rules), limit_(limit),
        hits_(new std::atomic<uint64_t>[rules.size()] {}) {
    by_root_.resize(static_cast<size_t>(op_count()));
    for (size_t i = 0; i < rules.size(); i++)
      by_root_[static_cast<size_t>(rules[i].left.terms[0].op)].push_back(i);
  }

  /// The replacement by the first rule that matches at `root`, if any does.
  std::optional<Node> step(const Node& root, const Trace& trace = {}) const {
    for (size_t i : by_root_[static_cast<size_t>(Traits::op(root))]) {
      const Rule<Traits>& rule = rules_[i];
      const size_t sources = Traits::source_count(root);
      if (!in_domain(rule.domain,
                     sources ? Traits::dtype(Traits::source(root, sources - 1)) : Traits::dtype(root)))
        continue;
      const auto match = find_match(rule, root);
      if (!match) continue;
      Node after = build(rule.right, 0, *match, root);
      if (after == root) continue;
      hits_[i].fetch_add(1, std::memory_order_relaxed);
      if (trace) trace(rule, root, after);
      return after;
    }
    return std::nullopt;
  }

  /// Applies rules at `node` until none matches. InternalError, naming the last rules, at the limit of steps.
  Node rewrite(Node node, const Trace& trace = {}) const {
    std::string last;
    for (int count = 0;
         auto next = step(node, [&](const Rule<Traits>&rule, const Node&before, const Node&after) {
           if (trace) trace(rule, before, after);
           if (count + 4 >= limit_) last += std::string(" ") + rule.name;
         });) {
      if (++count >= limit_)
        throw InternalError(name_ + " rules reached their limit of " + std::to_string(limit_) +
                            " at one node, last:" + last);
      node = std::move(*next);
    }
    return node;
  }

  std::span<const Rule<Traits>> rules() const { return rules_; }
  uint64_t hits(size_t rule) const { return hits_[rule].load(std::memory_order_relaxed); }

private:
  using Match = RuleMatch<Traits>;

  /// Tries each order of the operands of the pattern's commutative ops. Bit k of `swaps` swaps the operands
  /// of the k-th such op.
  std::optional<Match> find_match(const Rule<Traits>& rule, const Node& root) const {
    int commutative = 0;
    for (int i = 0; i < rule.left.count; i++)
      if (rule.left.terms[static_cast<size_t>(i)].kind == RuleTerm::Apply)
        commutative += is_commutative(rule.left.terms[static_cast<size_t>(i)].op);
    for (uint32_t swaps = 0; swaps < 1u << commutative; swaps++) {
      Match match;
      uint32_t left = swaps;
      if (matches(rule.left, 0, root, left, match) && (!rule.when || rule.when(root, match))) return match;
    }
    return std::nullopt;
  }

  static bool matches(const RuleSide& side, size_t at, const Node& node, uint32_t& swaps, Match& match) {
    const RuleTerm& t = side.terms[at];
    switch (t.kind) {
    case RuleTerm::Number: {
      const Scalar* value = Traits::constant(node);
      return value && *value == Scalar::of_int(value->dtype(), t.number);
    }
    case RuleTerm::Constant:
      if (!Traits::constant(node)) return false;
      [[fallthrough]];
    case RuleTerm::Any: {
      auto& bound = match.letters[t.letter];
      if (bound) return *bound == node;
      bound = &node;
      return true;
    }
    case RuleTerm::Apply: break;
    }
    const bool commutes = is_commutative(t.op), swap = commutes && (swaps & 1);
    if (commutes) swaps >>= 1;
    if (Traits::op(node) != t.op || Traits::source_count(node) != t.arity) return false;
    size_t child = at + 1;
    for (size_t i = 0; i < t.arity; i++) {
      if (!matches(side, child, Traits::source(node, swap ? 1 - i : i), swaps, match)) return false;
      child = side.terms[child].end;
    }
    return true;
  }

  static Node build(const RuleSide& side, size_t at, const Match& match, const Node& root) {
    const RuleTerm& t = side.terms[at];
    if (t.kind == RuleTerm::Number)
      return Traits::number(Scalar::of_int(number_dtype(at, root), t.number), root);
    if (t.kind != RuleTerm::Apply) return *match.letters[t.letter];
    std::vector<Node> sources;
    size_t child = at + 1;
    for (size_t i = 0; i < t.arity; i++) {
      sources.push_back(build(side, child, match, root));
      child = side.terms[child].end;
    }
    const DType dtype = at == 0 ? Traits::dtype(root) : result_dtype(t.op, Traits::dtype(sources.back()));
    return Traits::make(t.op, dtype, std::move(sources), root);
  }

  /// A number that is the whole replacement has the root's dtype; an operand has that of the root's operands.
  static DType number_dtype(size_t at, const Node& root) {
    const size_t sources = Traits::source_count(root);
    return at == 0 || !sources ? Traits::dtype(root) : Traits::dtype(Traits::source(root, sources - 1));
  }

  std::string name_;
  std::span<const Rule<Traits>> rules_;
  int limit_;
  std::vector<std::vector<size_t>> by_root_;
  std::unique_ptr<std::atomic<uint64_t>[]> hits_;
};

} // namespace lathe
