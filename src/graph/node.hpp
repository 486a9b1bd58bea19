// The graph: interned immutable nodes {op, dtype, shape, sources, attribute}. Building the same expression
// twice gives the same node. An Input has an identity: it carries a unique id and never merges.
//
// Shapes of sources are equal for elementwise ops: broadcasting is made explicit by View nodes when the
// user's op is built. A View's source is any node; adjacent Views are composed into one where one linear view
// exists.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/intern.hpp"
#include "core/op.hpp"
#include "core/storage.hpp"
#include "view/view.hpp"

namespace lathe::graph {

struct Node;
using NodeRef = Ref<Node>;

/// What a user declares of a value whose elements are of a narrow dtype. Its node is of the bytes in memory.
struct Declared {
  DType dtype;
  Shape shape;
};

struct StateBuffer;

/// Input: a buffer bound by name at each call (`data` is null), or a realised tensor (`name` is empty).
/// Equal ids are the same input. A named input's id is a hash of name, dtype and shape as declared: the same
/// declaration twice is one input. A state has an id of its own.
struct InputAttr {
  uint64_t id;
  std::string name;
  StorageRef data;
  std::shared_ptr<const Declared> declared{}; // of a named input of a narrow dtype
  std::shared_ptr<StateBuffer> state{};       // of a named input: the state that calls bind to it
};
struct IotaAttr {
  int axis;
}; // value = index along this axis of the node's shape
struct ReduceAttr {
  Op combine;
  std::vector<int> axes;
}; // axes ascending; they stay in the shape as size 1
struct ScatterAttr {
  std::optional<Op> combine;
}; // none: the last write in row-major order of the index stays

/// Coefficients of a linear map along one axis: out[r] = sum over c of values[r * columns + c] * in[c].
struct SmallMatrix {
  int rows = 0, columns = 0;
  std::vector<double> values; // row-major
  friend bool operator==(const SmallMatrix&, const SmallMatrix&) = default;
};
/// One matrix per axis, applied in this order; each axis' size changes from the matrix' columns to its rows.
struct TransformAttr {
  std::vector<int> axes; // ascending
  std::vector<SmallMatrix> matrices;
};

/// Which function a Function node is: a row of the table in function.cpp, and the number it takes, if any.
struct FunctionRule;
struct FunctionAttr {
  const FunctionRule* rule;
  double parameter;
};

/// One of the results of a recurrence; see scan.hpp. Nodes that differ in `result` alone are one recurrence,
/// which runs once.
struct ScanBody;
struct ScanAttr {
  std::shared_ptr<const ScanBody> body;
  Expr steps;
  int result; // position in body->results
};

/// Const: Scalar or Expr. Input: InputAttr. Iota: IotaAttr. View: View. Reduce: ReduceAttr. Scatter:
/// ScatterAttr. Transform: TransformAttr. Function: FunctionAttr. Scan: ScanAttr. The rest: none.
using Attr = std::variant<std::monostate, Scalar, Expr, InputAttr, IotaAttr, View, ReduceAttr, ScatterAttr,
                          TransformAttr, FunctionAttr, ScanAttr>;

/// Gather(source [N], index S) -> S.  Scatter(base [N], index S, source S) -> [N].
struct Node : Interned<Node> {
  Op op;
  DType dtype;
  Shape shape;
  std::vector<NodeRef> sources;
  Attr attr;
  /// Set once a Tensor has realised this value, so that graphs built from the node earlier read the buffer,
  /// too. No part of the node's identity; see realise.hpp.
  mutable NodeRef realised_as;

  size_t hash_value() const;
  bool equal(const Node&) const;
  template <class F> void for_each_source(F&& f) {
    for (NodeRef& s : sources) f(s);
  }
};

/// The number that a Const holds; null for an Expr.
const Scalar* const_scalar(const NodeRef& node);
/// The identity of a named input.
uint64_t named_input_id(std::string_view name, DType dtype, const Shape& shape);
/// An identity that no other input has.
uint64_t fresh_input_id();
/// What an Input's user declared: what the node is, but for a narrow dtype.
Declared declared_as(const NodeRef& input);

// Builders: infer shape and dtype, check, canonicalise (constant folding of scalars, View composition) and
// intern. They throw Error naming `Op`; the public Tensor functions check first, so as to name the user's
// function.
NodeRef constant(Scalar value, Shape shape);
NodeRef constant(Expr value, DType dtype, Shape shape);
/// Bound at each call. Of a narrow dtype the node is of the packed bytes.
NodeRef input(std::string name, DType dtype, Shape shape);
NodeRef state_input(const std::shared_ptr<StateBuffer>& state);
NodeRef realised(StorageRef data, DType dtype, Shape static_shape); // a fresh identity each time
NodeRef iota(int axis, DType dtype, Shape shape);
NodeRef unary(Op op, NodeRef a);
NodeRef cast(NodeRef a, DType to);
NodeRef bitcast(NodeRef a, DType to);
NodeRef binary(Op op, NodeRef a, NodeRef b); // equal shapes and dtypes
NodeRef where(NodeRef condition, NodeRef a, NodeRef b);
NodeRef reduce(Op combine, NodeRef a, std::vector<int> axes);
NodeRef transform(NodeRef a, TransformAttr attr);
NodeRef view(NodeRef a, const View& v); // v is over a's row-major elements
NodeRef gather(NodeRef source, NodeRef index);
NodeRef scatter(NodeRef base, NodeRef index, NodeRef source, std::optional<Op> combine);
NodeRef contiguous(NodeRef a);
NodeRef function(std::vector<NodeRef> sources, FunctionAttr attr); // the value, then the arguments
NodeRef scan_result(std::vector<NodeRef> sources, ScanAttr attr);         // as body->parameters
/// The same op and attribute over other sources, through the builders. Views and elementwise ops take the new
/// shape.
NodeRef with_sources(const NodeRef& node, std::vector<NodeRef> sources);

/// Whether a size is the constant 0. A symbolic size that may be 0 is not enough.
bool has_no_elements(const Shape& shape);

/// Throws Error(Shape) for a size that may be negative, Error(Limit) if the bytes don't fit 2^60. `op` begins
/// the message.
void check_shape(std::string_view op, const Shape& shape, DType dtype);

/// All nodes reachable from `outputs`, each once, sources before users; the order is deterministic: Kahn's
/// algorithm, ties by the order of discovery. Iterative.
std::vector<NodeRef> topological_order(const std::vector<NodeRef>& outputs);
/// Kahn generations, counted from the outputs. Generation 0 holds the nodes that no other node uses; for a+b
/// the sizes are 1, 2.
std::vector<std::vector<NodeRef>> generations(const std::vector<NodeRef>& outputs);
/// Rebuilds a graph bottom up. `replace` is given each node with its sources already rebuilt, and returns
/// that node or another. The sources of a leaf are not visited.
std::vector<NodeRef> rebuild(const std::vector<NodeRef>& outputs,
                             const std::function<NodeRef(const NodeRef& original, NodeRef rebuilt)>& replace,
                             const std::function<bool(const NodeRef&)>& is_leaf = {});

/// The graph as text, one node a line: "%3 = Add(%1, %2) : f32[n, 64]". parse() reads it back to the same
/// nodes; `realised_input` gives the realised inputs by their ids.
std::string print(const std::vector<NodeRef>& outputs);
std::vector<NodeRef> parse(std::string_view text,
                           const std::function<NodeRef(uint64_t id)>& realised_input = {});
std::string to_graphviz(const std::vector<NodeRef>& outputs);

/// What a rewrite did: the rule's name, and the node before and after.
using RewriteTrace = std::function<void(std::string_view rule, const NodeRef& before, const NodeRef& after)>;
/// Applies the named rewrite rules (identities, constant propagation, chains of casts ...) until nothing
/// changes; see rules.hpp.
std::vector<NodeRef> simplify(const std::vector<NodeRef>& outputs, const RewriteTrace& trace = {});
/// How often each rule was applied in this process, in the order of the tables.
std::vector<std::pair<std::string_view, uint64_t>> simplify_hits();

} // namespace lathe::graph
