// An evaluator of graphs for tests: every node element by element, by the meaning in the op table and the
// definition of View. It shares nothing with lowering, so that it is an independent oracle for everything
// below the graph.
//
//   lathe::graph::set_realiser(lathe::test::realise_by_evaluation);   // tensors now compute without a
//   compiler Bindings b; b.sizes["n"] = 7; b.bind("x", values); StorageRef y = evaluate_graph({node}, b)[0];
#pragma once
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/node.hpp"
#include "graph/realise.hpp"
#include "graph/scan.hpp"
#include "lathe/error.hpp"

namespace lathe::test {

struct Bindings {
  std::map<std::string, std::vector<unsigned char>> inputs;
  std::map<std::string, int64_t> sizes;

  template <class T> void bind(const std::string& name, const std::vector<T>& values) {
    const auto* p = reinterpret_cast<const unsigned char*>(values.data());
    inputs[name].assign(p, p + values.size() * sizeof(T));
  }
};

class GraphEvaluator {
public:
  explicit GraphEvaluator(const Bindings& bindings) : bindings_(bindings) {}

  std::vector<StorageRef> run(const std::vector<graph::NodeRef>& outputs) {
    for (const graph::NodeRef& n : graph::topological_order(outputs)) values_.emplace(n.get(), compute(*n));
    std::vector<StorageRef> result;
    for (const graph::NodeRef& n : outputs) result.push_back(values_.at(n.get()));
    return result;
  }

private:
  int64_t at(Expr e) const {
    return evaluate(e, [&](Expr var) { return bindings_.sizes.at(var.name()); });
  }
  std::vector<int64_t> at(const std::vector<Expr>& es) const {
    std::vector<int64_t> out;
    for (Expr e : es) out.push_back(at(e));
    return out;
  }
  static int64_t product(const std::vector<int64_t>& sizes) {
    int64_t p = 1;
    for (int64_t s : sizes) p *= s;
    return p;
  }
  int64_t count(const graph::Node& n) const { return product(at(n.shape)); }

  static Scalar get(const Storage& s, DType d, int64_t i) {
    return Scalar::from_memory(d, static_cast<const unsigned char*>(s.data()) + i * size_of(d));
  }
  static void set(Storage& s, int64_t i, const Scalar& v) {
    v.to_memory(static_cast<unsigned char*>(s.data()) + i * size_of(v.dtype()));
  }
  struct Source {
    const Storage* values;
    DType dtype;
    Scalar operator[](int64_t i) const { return get(*values, dtype, i); }
  };
  Source source(const graph::Node& n, size_t k) const {
    return {values_.at(n.sources[k].get()).get(), n.sources[k]->dtype};
  }

  // Calls f(flat, index) for every element of a shape in row-major order.
  template <class F> static void for_each(const std::vector<int64_t>& shape, F&& f) {
    std::vector<int64_t> index(shape.size(), 0);
    const int64_t total = product(shape);
    for (int64_t flat = 0; flat < total; ++flat) {
      f(flat, index);
      for (size_t axis = shape.size(); axis-- > 0;) {
        if (++index[axis] < shape[axis]) break;
        index[axis] = 0;
      }
    }
  }

  StorageRef compute(const graph::Node& n) {
    if (n.op == Op::Input) return input(n);
    if (n.op == Op::Scan) return recurrence(n)[static_cast<size_t>(std::get<graph::ScanAttr>(n.attr).result)];
    const int64_t total = count(n);
    StorageRef out = Storage::allocate(static_cast<size_t>(total) * size_of(n.dtype));
    switch (n.op) {
    case Op::Const: {
      const auto* s = std::get_if<Scalar>(&n.attr);
      const Scalar v = s ? *s : Scalar::of_int(n.dtype, at(std::get<Expr>(n.attr)));
      for (int64_t i = 0; i < total; ++i) set(*out, i, v);
      break;
    }
    case Op::Iota: {
      const int axis = std::get<graph::IotaAttr>(n.attr).axis;
      for_each(at(n.shape), [&](int64_t flat, const std::vector<int64_t>& index) {
        set(*out, flat, Scalar::of_int(n.dtype, index[axis]));
      });
      break;
    }
    case Op::Cast: {
      const Source from = source(n, 0);
      for (int64_t i = 0; i < total; ++i) set(*out, i, from[i].cast(n.dtype));
      break;
    }
    case Op::Bitcast:
    case Op::Contiguous:
    case Op::Function:
      std::memcpy(out->data(), values_.at(n.sources[0].get())->data(), out->bytes());
      break;
    case Op::View: view(n, *out); break;
    case Op::Reduce: reduce(n, *out); break;
    case Op::Transform: transform(n, *out); break;
    case Op::Gather: {
      const int64_t limit = count(*n.sources[0]);
      const Source from = source(n, 0), places = source(n, 1);
      for (int64_t i = 0; i < total; ++i) {
        const int64_t k = place(places[i]);
        set(*out, i, k >= 0 && k < limit ? from[k] : Scalar::zero(n.dtype));
      }
      break;
    }
    case Op::Scatter: {
      std::memcpy(out->data(), values_.at(n.sources[0].get())->data(), out->bytes());
      const auto combine = std::get<graph::ScatterAttr>(n.attr).combine;
      const Source places = source(n, 1), values = source(n, 2);
      const int64_t writes = count(*n.sources[1]);
      for (int64_t i = 0; i < writes; ++i) {
        const int64_t k = place(places[i]);
        if (k < 0 || k >= total) continue;
        const Scalar v = values[i];
        const Scalar args[] = {get(*out, n.dtype, k), v};
        set(*out, k, combine ? evaluate(*combine, n.dtype, args) : v);
      }
      break;
    }
    default: {
      Scalar args[3];
      Source from[3];
      for (size_t k = 0; k < n.sources.size(); ++k) from[k] = source(n, k);
      for (int64_t i = 0; i < total; ++i) {
        for (size_t k = 0; k < n.sources.size(); ++k) args[k] = from[k][i];
        set(*out, i, evaluate(n.op, n.dtype, std::span<const Scalar>(args, n.sources.size())));
      }
    }
    }
    return out;
  }

  static int64_t place(const Scalar& s) {
    return s.dtype() == DType::U64 && s.as_int() < 0 ? INT64_MAX : s.as_int();
  }

  StorageRef input(const graph::Node& n) const {
    const auto& a = std::get<graph::InputAttr>(n.attr);
    if (a.data) return a.data;
    const auto& bytes = bindings_.inputs.at(a.name);
    StorageRef out = Storage::allocate(static_cast<size_t>(count(n)) * size_of(n.dtype));
    if (bytes.size() != out->bytes()) throw Error(ErrorKind::Value, "graph_eval: size of input " + a.name);
    if (!bytes.empty()) std::memcpy(out->data(), bytes.data(), bytes.size());
    return out;
  }

  // Every result of the recurrence that the node is a result of: the body's graph, step by step.
  const std::vector<StorageRef>& recurrence(const graph::Node& n) {
    const auto& attr = std::get<graph::ScanAttr>(n.attr);
    const graph::ScanBody& body = *attr.body;
    std::vector<const void*> key{attr.body.get()};
    for (const graph::NodeRef& source : n.sources) key.push_back(source.get());
    std::vector<StorageRef>& all = recurrences_[key];
    if (!all.empty()) return all;
    std::vector<StorageRef> sources;
    for (const graph::NodeRef& source : n.sources) sources.push_back(values_.at(source.get()));
    const int64_t steps = at(attr.steps);
    const auto row_of = [&](size_t k, int64_t step) { return body.backward[k] ? steps - 1 - step : step; };
    std::vector<StorageRef> states(sources.begin(), sources.begin() + static_cast<int64_t>(body.states));
    std::vector<StorageRef> stacked;
    for (size_t k = body.states; k < body.results.size(); ++k)
      stacked.push_back(Storage::allocate(static_cast<size_t>(steps) * row_bytes(*body.results[k])));
    const auto runs = [&](int64_t step) {
      if (!body.when) return true;
      if (body.ends_early()) return get(*states[*body.when], DType::Bool, 0).as_int() != 0;
      return get(*sources[*body.when], DType::Bool, row_of(*body.when - body.states, step)).as_int() != 0;
    };
    for (size_t k = 0; k < stacked.size(); ++k) // what nothing may read is a number that would show
      std::memset(stacked[k]->data(), body.is_cleared(body.states + k) ? 0 : 0x5b, stacked[k]->bytes());
    for (int64_t step = 0; step < steps; ++step) {
      if (!runs(step)) continue;
      Bindings inside;
      inside.sizes = bindings_.sizes;
      for (size_t k = 0; k < body.parameters.size(); ++k) {
        const graph::Node& parameter = *body.parameters[k];
        const bool is_row = k >= body.states && k < body.states + body.scanned;
        const StorageRef& whole = k < body.states ? states[k] : sources[k];
        const auto* from = static_cast<const unsigned char*>(whole->data());
        if (is_row) from += static_cast<size_t>(row_of(k - body.states, step)) * row_bytes(parameter);
        inside.inputs[std::get<graph::InputAttr>(parameter.attr).name].assign(from, from + row_bytes(parameter));
      }
      const std::vector<StorageRef> made = GraphEvaluator(inside).run(body.results);
      std::copy(made.begin(), made.begin() + static_cast<int64_t>(body.states), states.begin());
      for (size_t k = 0; k < stacked.size(); ++k) {
        const StorageRef& row = made[body.states + k];
        auto* to = static_cast<unsigned char*>(stacked[k]->data());
        std::memcpy(to + static_cast<size_t>(row_of(body.scanned + k, step)) * row->bytes(), row->data(), row->bytes());
      }
    }
    all = states;
    all.insert(all.end(), stacked.begin(), stacked.end());
    return all;
  }
  size_t row_bytes(const graph::Node& n) const { return static_cast<size_t>(count(n)) * size_of(n.dtype); }

  // Straight from the definition: a sum over all places along the transformed axes.
  void transform(const graph::Node& n, Storage& out) const {
    const auto& attr = std::get<graph::TransformAttr>(n.attr);
    const Source values = source(n, 0);
    const std::vector<int64_t> from = at(n.sources[0]->shape), shape = at(n.shape);
    for (int64_t i = 0; i < product(shape); ++i) set(out, i, Scalar::zero(n.dtype));
    for_each(from, [&](int64_t flat, const std::vector<int64_t>& place) {
      for_each(shape, [&](int64_t to, const std::vector<int64_t>& index) {
        double factor = 1;
        std::vector<int64_t> rest = place;
        for (size_t k = 0; k < attr.axes.size(); ++k) {
          const graph::SmallMatrix& m = attr.matrices[k];
          const size_t axis = static_cast<size_t>(attr.axes[k]);
          factor *= m.values[index[axis] * m.columns + place[axis]];
          rest[axis] = index[axis];
        }
        if (rest != index || factor == 0) return;
        const double sum = get(out, n.dtype, to).as_float() + factor * values[flat].as_float();
        set(out, to, Scalar::of_float(n.dtype, sum));
      });
    });
  }

  void view(const graph::Node& n, Storage& out) const {
    const View& v = std::get<View>(n.attr);
    const std::vector<int64_t> strides = at(v.strides());
    const int64_t offset = at(v.offset()), limit = count(*n.sources[0]);
    std::vector<std::pair<int64_t, int64_t>> mask;
    for (const Interval& i : v.mask()) mask.emplace_back(at(i.begin), at(i.end));
    const Source from = source(n, 0);
    for_each(at(n.shape), [&](int64_t flat, const std::vector<int64_t>& index) {
      int64_t where = offset;
      bool inside = true;
      for (size_t k = 0; k < index.size(); ++k) {
        where += index[k] * strides[k];
        if (!mask.empty()) inside = inside && index[k] >= mask[k].first && index[k] < mask[k].second;
      }
      if (inside && (where < 0 || where >= limit))
        throw InternalError("graph_eval: a view reaches outside its source");
      set(out, flat, inside ? from[where] : Scalar::zero(n.dtype));
    });
  }

  void reduce(const graph::Node& n, Storage& out) const {
    const auto& a = std::get<graph::ReduceAttr>(n.attr);
    const std::vector<int64_t> shape = at(n.shape);
    const Source from = source(n, 0);
    for (int64_t i = 0; i < product(shape); ++i) set(out, i, identity(a.combine, n.dtype));
    for_each(at(n.sources[0]->shape), [&](int64_t flat, const std::vector<int64_t>& index) {
      int64_t to = 0;
      for (size_t k = 0; k < index.size(); ++k) to = to * shape[k] + (shape[k] == 1 ? 0 : index[k]);
      const Scalar args[] = {get(out, n.dtype, to), from[flat]};
      set(out, to, evaluate(a.combine, n.dtype, args));
    });
  }

  const Bindings& bindings_;
  std::unordered_map<const graph::Node*, StorageRef> values_;
  std::map<std::vector<const void*>, std::vector<StorageRef>> recurrences_; // by body and sources
};

inline std::vector<StorageRef> evaluate_graph(const std::vector<graph::NodeRef>& outputs,
                                              const Bindings& bindings = {}) {
  return GraphEvaluator(bindings).run(outputs);
}

inline std::vector<StorageRef> realise_by_evaluation(const std::vector<graph::NodeRef>& outputs) {
  return evaluate_graph(outputs);
}

} // namespace lathe::test
