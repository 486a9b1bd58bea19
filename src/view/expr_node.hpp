// The node behind an Expr, and what the files of the simplifier share. Only src/view includes this.
//
// Every node can be read as a sum, constant + terms[0] + terms[1] + ..., where a term is a coefficient times
// a monomial and a monomial a product of factors. Any other expression is a sum of one term, so the
// simplifier needs no cases for it. Invariants: terms are in the order of compare_monomials, distinct, with
// coefficients other than 0; factors are in the order of compare; no factor is a Const or a Mul. Nodes are
// immutable except for the three atomic caches.
#pragma once
#include <atomic>
#include <span>

#include "view/expr_scope.hpp"

namespace lathe {

struct Term {
  const ExprNode* monomial;
  int64_t coefficient;
  friend bool operator==(const Term&, const Term&) = default;
};

struct ExprNode {
  const ExprScope* home = nullptr; // the scope that it lives as long as
  ExprKind kind = ExprKind::Const;
  bool has_mod = false; // some term has a Mod among its factors
  bool has_div = false; // some term has a FloorDiv or a Mod among its factors
  uint16_t nesting = 0; // of a loop Var: more than that of every variable in its extent
  uint16_t depth = 0;   // nesting; a sum or product is as deep as its deepest part
  uint32_t written = 1; // nodes when written out, shared ones each time; saturates
  int id = -1;          // of a Var
  int64_t constant = 0;
  int64_t lo = 0, hi = 0;
  int64_t typical = 0; // of a shape Var
  size_t hash = 0;
  std::span<const Term> terms;
  std::span<const ExprNode* const> factors; // empty for Const, Add and a Mul by a constant
  std::span<const ExprNode* const> vars;    // distinct, in first-seen order
  const ExprNode* extent = nullptr;         // of a loop Var
  const std::string* name = nullptr;        // of a Var
  mutable std::atomic<const ExprNode*> lhs{nullptr}, rhs{nullptr}; // of a sum: made when first asked for
  mutable std::atomic<uint8_t> nonpositive{0}; // the prover's cache: 0 unknown, 1 no, 2 yes
};

/// Infinity of the bounds: arithmetic on bounds saturates there and stays.
inline constexpr int64_t kLeast = INT64_MIN, kMost = INT64_MAX;
inline constexpr int kMaxDepth = 256;

int64_t bound_add(int64_t a, int64_t b);      // an infinite operand wins
int64_t bound_mul(int64_t a, int64_t b);      // 0 wins
int64_t floor_quotient(int64_t a, int64_t b); // b != 0; saturates
int64_t floor_remainder(int64_t a, int64_t b);

/// Exact arithmetic on coefficients; throws Error(Limit) where the result does not fit.
int64_t checked_add(int64_t a, int64_t b);
int64_t checked_mul(int64_t a, int64_t b);

/// A total order by structure, the same in every process: negative, 0 or positive.
int compare(const ExprNode* a, const ExprNode* b);
int compare_monomials(const ExprNode* a, const ExprNode* b);

/// A growing list with room for N elements in place. T is trivially copyable.
template <class T, size_t N = 12> class SmallList {
public:
  SmallList() = default;
  SmallList(const SmallList& o) {
    for (const T& v : o) push(v);
  }
  SmallList& operator=(const SmallList& o) {
    if (this != &o) {
      size_ = 0;
      for (const T& v : o) push(v);
    }
    return *this;
  }
  ~SmallList() {
    if (data_ != inline_) delete[] data_;
  }
  void push(const T& v) {
    if (size_ == capacity_) grow();
    data_[size_++] = v;
  }
  void erase(size_t i) {
    for (; i + 1 < size_; i++) data_[i] = data_[i + 1];
    size_--;
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

private:
  void grow() {
    T* more = new T[capacity_ * 2];
    for (size_t i = 0; i < size_; i++) more[i] = data_[i];
    if (data_ != inline_) delete[] data_;
    data_ = more;
    capacity_ *= 2;
  }
  T inline_[N];
  T* data_ = inline_;
  size_t size_ = 0, capacity_ = N;
};

/// A sum under construction.
struct Sum {
  SmallList<Term> terms;
  int64_t constant = 0;

  Sum() = default;
  explicit Sum(Expr e) : constant(e.node()->constant) {
    for (const Term& t : e.node()->terms) terms.push(t);
  }
  void add(const Term& t);
  void add(Expr e, int64_t factor = 1);
  Expr expr() const;
};

// Interning (expr_table.cpp, in the tables of expr_home.hpp). Operands must already be canonical; these only
// find or make the node.
const ExprNode* intern_const(int64_t value);
const ExprNode* intern_sum(std::span<const Term> terms, int64_t constant);
const ExprNode* intern_scaled(const ExprNode* monomial, int64_t coefficient);
const ExprNode* intern_product(std::span<const ExprNode* const> factors); // sorted
const ExprNode* intern_binary(ExprKind kind, const ExprNode* lhs, const ExprNode* rhs);
const ExprNode* intern_var(std::string_view name, int id, int64_t lo, int64_t hi, const ExprNode* extent,
                           int64_t typical);

/// Whether the part of an expression lives at least as long as the whole.
bool lives_as_long(const ExprNode& part, const ExprNode& whole);

/// recall() returns the remembered result of a simplified operation on the same operands, or nullptr;
/// remember() stores one.
const ExprNode* recall(ExprKind op, const ExprNode* a, const ExprNode* b);
void remember(ExprKind op, const ExprNode* a, const ExprNode* b, const ExprNode* result);

/// Product of two monomials or atoms of a term list.
const ExprNode* multiply_monomials(const ExprNode* a, const ExprNode* b);
/// a / b of monomials if every factor of b is a factor of a, the Const 1 if no factor is left; else nullptr.
const ExprNode* divide_monomials(const ExprNode* a, const ExprNode* b);

/// a = quotient * b + rest, with every part of a that is a multiple of b in the quotient. b is positive.
struct Division {
  Expr quotient, rest;
};
Division split_multiple(Expr a, Expr b);
/// a / b where b divides every part of a.
std::optional<Expr> divide_exactly(Expr a, Expr b);

/// Whether the prover finds that d <= 0 for all values of the variables.
bool proves_nonpositive(Expr d);

} // namespace lathe
