// Draws programs. Every step is evaluated by the oracle as it is drawn, so that shapes are known and what
// gives nothing to compare is drawn again.
#include <algorithm>

#include "net/program.hpp"

namespace lathe::net {
namespace {

constexpr int64_t kMostElements = 3000;
constexpr int kMostUndecided = 60; // per cent of a step's elements

bool listed(const std::vector<std::string>& list, const Function& f) {
  return std::any_of(list.begin(), list.end(),
                     [&](const std::string& s) { return s == f.name || s == f.theme || s + "()" == f.name; });
}

} // namespace

const std::vector<Function>& functions() {
  static const std::vector<Function> table = [] {
    std::vector<Function> rows;
    rows.reserve(200);
    add_creation(rows);
    add_elementwise(rows);
    add_binary(rows);
    add_reductions(rows);
    add_scans(rows);
    add_recurrences(rows);
    add_movement(rows);
    add_indexing(rows);
    add_products(rows);
    add_windows(rows);
    add_layers(rows);
    return rows;
  }();
  return table;
}

const Function& function_named(const std::string& name) {
  for (const Function& f : functions())
    if (f.name == name) return f;
  throw Invalid("no function " + name);
}

Maker::Maker(uint64_t seed, const DrawOptions& options) : random_(seed), options_(options) {}

bool Maker::allowed(const Function& f) const {
  if (options_.gradients && !f.smooth) return false;
  if (!options_.only.empty() && f.theme != "creation" && !listed(options_.only, f)) return false;
  return !listed(options_.avoid, f);
}

int64_t Maker::size() {
  static const std::vector<int64_t> often{1, 2, 2, 3, 3, 4, 5, 7, 8, 11, 13},
      sizes{15, 16, 17, 19, 31, 32, 33, 63, 64, 65};
  if (options_.symbol && chance(35)) return options_.symbol;
  if (options_.empty && chance(12)) return 0;
  return chance(80) ? pick(often) : pick(sizes);
}

Sizes Maker::shape(int least, int most) {
  Sizes out;
  const int rank = least + static_cast<int>(below(static_cast<uint64_t>(most - least + 1)));
  for (int i = 0; i < rank; ++i) out.push_back(size());
  while (count_of(out) > kMostElements / 2) *std::max_element(out.begin(), out.end()) /= 2;
  if (chance(1)) out = {chance(50) ? 1000 : 2049};
  return out;
}

DType Maker::dtype() { return pick(options_.dtypes); }

std::optional<int> Maker::existing(const std::function<bool(const Array&)>& fits) {
  std::vector<int> found;
  for (int k = 0; k < static_cast<int>(values_.size()); ++k)
    if (!fits || fits(values_[static_cast<size_t>(k)])) found.push_back(k);
  if (found.empty()) return {};
  // Chains grow from what was made last.
  return chance(70) ? found.back() : pick(found);
}

int Maker::some(const std::function<bool(const Array&)>& fits) {
  if (!chance(8))
    if (const auto found = existing(fits)) return *found;
  for (int i = 0; i < 20; ++i) {
    const Sizes s = shape();
    const DType d = dtype();
    const Array like{d, s, {}};
    if (!fits || fits(like)) return leaf(s, d);
  }
  throw Invalid("nothing fits");
}

int Maker::some_float() {
  return some([](const Array& a) { return is_float(a.dtype); });
}

int Maker::leaf(const Sizes& shape, DType dtype, int kind) {
  Step s;
  s.function = &function_named(options_.gradients || options_.symbol || chance(80) ? "input" : "data");
  s.ints = shape;
  s.dtype = dtype;
  static const std::vector<int> kinds{0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 5};
  const int drawn = pick(kinds);
  s.more = {kind >= 0            ? kind
            : options_.gradients ? (chance(30) ? 0 : 2)
                                 : drawn,
            static_cast<int64_t>(below(1 << 20))};
  if (!push(std::move(s))) throw Invalid("a leaf of too many elements");
  return static_cast<int>(values_.size()) - 1;
}

int Maker::indices(const Sizes& shape, int64_t n) {
  Step s;
  s.function = &function_named(options_.symbol || chance(80) ? "input" : "data");
  s.ints = shape;
  static const std::vector<DType> dtypes{DType::I64, DType::I64, DType::I32,
                                         DType::U8,  DType::I16, DType::U32};
  s.dtype = pick(dtypes);
  const bool negative = is_signed(s.dtype) && chance(50), outside = chance(10);
  s.more = {0, static_cast<int64_t>(below(1 << 20)), negative ? -n : 0, n};
  if (outside || n == 0) s.more[3] += 2, s.more[2] -= negative ? 2 : 0;
  push(std::move(s));
  return static_cast<int>(values_.size()) - 1;
}

int Maker::axis(const Array& a) {
  const auto rank = static_cast<int64_t>(a.shape.size());
  return static_cast<int>(static_cast<int64_t>(below(static_cast<uint64_t>(rank))) - (chance(30) ? rank : 0));
}

std::vector<int64_t> Maker::axes(const Array& a) {
  std::vector<int64_t> out;
  if (chance(15)) return out;
  for (size_t i = 0; i < a.shape.size(); ++i)
    if (chance(50))
      out.push_back(static_cast<int64_t>(i) - (chance(20) ? static_cast<int64_t>(a.shape.size()) : 0));
  return out;
}

int Maker::beside(const Sizes& shape, DType dtype) {
  if (chance(40))
    if (const auto found = existing([&](const Array& a) {
          if (a.dtype == DType::Bool && dtype != DType::Bool && !chance(20)) return false;
          for (size_t i = 0; i < std::min(a.shape.size(), shape.size()); ++i) {
            const int64_t m = a.shape[a.shape.size() - 1 - i], n = shape[shape.size() - 1 - i];
            if (m != n && m != 1 && n != 1) return false;
          }
          return true;
        }))
      return *found;
  Sizes other = shape;
  if (chance(30) && !other.empty()) other.erase(other.begin());
  for (int64_t& n : other)
    if (chance(20)) n = 1;
  return leaf(other, chance(85) ? dtype : this->dtype());
}

bool Maker::push(Step step) {
  Arrays operands;
  for (int k : step.in) operands.push_back(&values_[static_cast<size_t>(k)]);
  Array value = step.function->reference(step, operands);
  if (value.at.size() > static_cast<size_t>(kMostElements)) return false;
  int64_t lost = 0;
  for (Cell c : value.at) lost += !c.decided() || std::isnan(c.v);
  if (!is_leaf(step) && lost * 100 > kMostUndecided * static_cast<int64_t>(value.at.size())) return false;
  program_.steps.push_back(std::move(step));
  values_.push_back(std::move(value));
  return true;
}

Program Maker::draw() {
  std::vector<const Function*> urn;
  for (const Function& f : functions())
    if (allowed(f))
      for (int i = 0; i < f.weight; ++i) urn.push_back(&f);
  const size_t wanted = 2 + below(options_.gradients ? 4 : 7);
  size_t steps = 0;
  for (int attempt = 0; attempt < 200 && steps < wanted; ++attempt) {
    Step s;
    s.function = pick(urn);
    const size_t before = program_.steps.size();
    bool made = false;
    try {
      made = s.function->draw(*this, s) && push(std::move(s));
    } catch (const Invalid&) {
    }
    if (made) {
      ++steps;
    } else { // and without the leaves that it drew
      program_.steps.resize(before);
      values_.resize(before);
    }
  }
  // Outputs: the last value, and now and then others. All that nothing reads would be work for nothing.
  std::vector<bool> read(program_.steps.size());
  for (const Step& s : program_.steps)
    for (int k : s.in) read[static_cast<size_t>(k)] = true;
  for (int k = 0; k < static_cast<int>(program_.steps.size()); ++k) {
    const bool leaf = is_leaf(program_.steps[static_cast<size_t>(k)]);
    if (leaf ? false : !read[static_cast<size_t>(k)] || chance(8)) program_.outputs.push_back(k);
  }
  if (program_.outputs.empty() && !program_.steps.empty())
    program_.outputs.push_back(static_cast<int>(program_.steps.size()) - 1);
  return pruned(program_);
}

} // namespace lathe::net
