// Matrix products and einsum: each result is a sum of products, over all values of the labels that it lacks.
#include <algorithm>
#include <map>

#include "net/program.hpp"
#include "net/rows.hpp"

namespace lathe::net {
namespace {

/// Sums of products of operands along labels; an operand's size of 1 stands for all.
Array contracted(const Arrays& operands, const std::vector<std::string>& labels, const std::string& out) {
  std::map<char, int64_t> sizes;
  DType d = operands[0]->dtype;
  for (size_t k = 0; k < operands.size(); ++k) {
    d = promoted(d, operands[k]->dtype);
    require(labels[k].size() == operands[k]->shape.size(), "einsum");
    for (size_t i = 0; i < labels[k].size(); ++i) {
      const int64_t own = operands[k]->shape[i];
      int64_t& n = sizes.emplace(labels[k][i], own).first->second;
      require(n == own || n == 1 || own == 1, "einsum");
      if (n == 1) n = own;
    }
  }
  std::string inner;
  for (const auto& [label, n] : sizes)
    if (out.find(label) == std::string::npos) inner += label;
  Sizes shape, reduced;
  for (char c : out) shape.push_back(sizes.at(c));
  for (char c : inner) reduced.push_back(sizes.at(c));
  std::vector<Array> cast;
  const DType w = wide_dtype(d);
  for (const Array* a : operands) cast.push_back(cast_array(d, *a));
  Array result{d, shape, {}};
  std::map<char, int64_t> at;
  for_each_index(shape, [&](const Sizes& index) {
    for (size_t i = 0; i < out.size(); ++i) at[out[i]] = index[i];
    std::vector<Cell> terms;
    for_each_index(reduced, [&](const Sizes& inside) {
      for (size_t i = 0; i < inner.size(); ++i) at[inner[i]] = inside[i];
      std::optional<Cell> term;
      for (size_t k = 0; k < cast.size(); ++k) {
        Sizes own;
        for (size_t i = 0; i < labels[k].size(); ++i)
          own.push_back(cast[k].shape[i] == 1 ? 0 : at[labels[k][i]]);
        const Cell c = cast[k].at[static_cast<size_t>(flat_of(cast[k].shape, own))];
        if (!term)
          term = c;
        else if (d == DType::Bool)
          term = term->decided() && c.decided() ? truth(term->v != 0 && c.v != 0) : undecided();
        else
          term = term_of(d, *term, c);
      }
      terms.push_back(*term);
    });
    if (d == DType::Bool) {
      bool any = false, unknown = false;
      for (Cell c : terms) any |= c.decided() && c.v != 0, unknown |= !c.decided();
      result.at.push_back(any ? truth(true) : unknown ? undecided() : truth(false));
    } else {
      const Cell s = sum_of(w, terms);
      result.at.push_back(is_half(d) ? rounded(d, s) : s);
    }
  });
  return result;
}

Array matmul_reference(const Array& a, const Array& b) {
  require(!a.shape.empty() && !b.shape.empty(), "matmul");
  const size_t batch = std::max(a.shape.size(), b.shape.size());
  const auto of = [&](const Array& x, const std::string& own) {
    if (x.shape.size() == 1) return own.substr(own == "mk" ? 1 : 0, 1);
    const size_t extra = x.shape.size() - 2;
    std::string labels;
    for (size_t i = 0; i < extra; ++i) labels += static_cast<char>('A' + (batch - extra + i));
    return labels + own;
  };
  const std::string left = of(a, "mk"), right = of(b, "kn");
  require((a.shape.back()) == b.shape[b.shape.size() - (b.shape.size() == 1 ? 1 : 2)], "matmul");
  std::string out;
  for (const std::string* s : {&left, &right})
    for (char c : *s)
      if (c < 'a' && out.find(c) == std::string::npos) out += c;
  std::sort(out.begin(), out.end());
  if (a.shape.size() > 1) out += 'm';
  if (b.shape.size() > 1) out += 'n';
  return contracted({&a, &b}, {left, right}, out);
}

bool draw_matmul(Maker& m, Step& s) {
  const int a = m.some([](const Array& v) { return !v.shape.empty() && count_of(v.shape) <= 2000; });
  const Array first = m.value(a);
  const int64_t k = first.shape.back();
  Sizes other;
  if (m.chance(15))
    other = {k};
  else {
    other = {k, m.size()};
    if (first.shape.size() > 2 && m.chance(50)) {
      Sizes batch(first.shape.begin(), first.shape.end() - 2);
      for (int64_t& n : batch)
        if (m.chance(30)) n = 1;
      other.insert(other.begin(), batch.begin(), batch.end());
    }
  }
  const auto have = m.existing([&](const Array& v) { return v.shape == other; });
  s.in = {a, have ? *have : m.leaf(other, m.chance(85) ? first.dtype : m.dtype())};
  return count_of(first.shape) * other.back() <= 40000;
}

/// Two operands at a time; half precision rounds what lies between.
Array from_the_left(Arrays operands, std::vector<std::string> labels, const std::string& out) {
  std::deque<Array> between;
  while (operands.size() > 2) {
    std::string later = out, kept;
    for (size_t k = 2; k < labels.size(); ++k) later += labels[k];
    for (char c : labels[0] + labels[1])
      if (later.find(c) != std::string::npos && kept.find(c) == std::string::npos) kept += c;
    between.push_back(contracted({operands[0], operands[1]}, {labels[0], labels[1]}, kept));
    operands.erase(operands.begin());
    labels.erase(labels.begin());
    operands[0] = &between.back();
    labels[0] = kept;
  }
  return contracted(operands, labels, out);
}

const char* const kEquations[] = {"ij,jk->ik", "ij,kj->ki", "ij,jk,kl->il", "ij->ji",          "ii->i",
                                  "ii",        "ij,ij->",   "bij,bjk->bik", "i,j->ij",         "bi,bi->b",
                                  "ij,ij->ij", "abc->cab",  "ij->",         "bhid,bhjd->bhij", "ij,j",
                                  "ijk,kj->i"};

std::vector<std::string> split_labels(const std::string& equation, std::string& out) {
  const size_t arrow = equation.find("->");
  const std::string left = equation.substr(0, arrow);
  std::vector<std::string> labels(1);
  for (char c : left) {
    if (c == ',')
      labels.emplace_back();
    else
      labels.back() += c;
  }
  if (arrow != std::string::npos) {
    out = equation.substr(arrow + 2);
    return labels;
  }
  std::map<char, int> counts; // labels that occur once, sorted
  for (char c : left)
    if (c != ',') ++counts[c];
  for (const auto& [c, n] : counts)
    if (n == 1) out += c;
  return labels;
}

bool draw_einsum(Maker& m, Step& s) {
  s.text = kEquations[m.below(std::size(kEquations))];
  std::string out;
  const std::vector<std::string> labels = split_labels(s.text, out);
  std::map<char, int64_t> sizes;
  int64_t work = 1;
  const DType d = m.dtype();
  for (const std::string& own : labels) {
    Sizes shape;
    for (char c : own) {
      if (!sizes.count(c)) work *= sizes[c] = m.size();
      shape.push_back(sizes[c]);
    }
    if (work > 40000) return false;
    const auto have = m.existing([&](const Array& v) { return v.shape == shape; });
    s.in.push_back(have ? *have : m.leaf(shape, m.chance(85) ? d : m.dtype()));
  }
  return true;
}

} // namespace

void add_products(std::vector<Function>& rows) {
  rows.push_back(
      {"matmul", "product", draw_matmul, [](const Step&, const Tensors& x) { return x[0].matmul(x[1]); },
       [](const Step&, const Arrays& x) { return matmul_reference(*x[0], *x[1]); },
       [](const Step&, const Texts& x) { return fmt::format("{}.matmul({})", x[0], x[1]); }, 5, true});
  rows.push_back({"einsum", "product", draw_einsum,
                  [](const Step& s, const Tensors& x) { return einsum(s.text, x); },
                  [](const Step& s, const Arrays& x) {
                    std::string out;
                    const std::vector<std::string> labels = split_labels(s.text, out);
                    require(labels.size() == x.size(), "einsum");
                    for (size_t k = 0; k < labels.size(); ++k) {
                      std::map<char, int64_t> own; // a diagonal's axes have one size
                      require(labels[k].size() == x[k]->shape.size(), "einsum");
                      for (size_t i = 0; i < labels[k].size(); ++i) {
                        auto [it, fresh] = own.insert({labels[k][i], x[k]->shape[i]});
                        require(fresh || it->second == x[k]->shape[i], "einsum");
                      }
                    }
                    return from_the_left(x, labels, out);
                  },
                  [](const Step& s, const Texts& x) {
                    return fmt::format("einsum(\"{}\", {{{}}})", s.text, fmt::join(x, ", "));
                  },
                  3, true});
}

} // namespace lathe::net
