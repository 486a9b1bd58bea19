#include <algorithm>
#include <fmt/core.h>
#include <unordered_map>
#include <unordered_set>

#include "ast/buffer.hpp"
#include "core/scanner.hpp"
#include "graph/scan.hpp"
#include "lathe/error.hpp"
#include "lower/access.hpp"
#include "lower/nests.hpp"
#include "lower/program.hpp"

namespace lathe::lower {
namespace {

using graph::Node;
using graph::NodeRef;

/// Returns a C identifier like `name` that isn't in `taken`, and adds it there. Names like "t3" are kept for
/// stages.
std::string buffer_name(const std::string& name, std::unordered_set<std::string>& taken) {
  std::string clean;
  for (const char c : name) clean += is_word(c) ? c : '_';
  const bool like_stage =
      clean.size() > 1 && clean[0] == 't' && clean.find_first_not_of("0123456789", 1) == std::string::npos;
  if (clean.empty() || is_digit(clean[0]) || like_stage) clean.insert(0, "in_");
  std::string unique = clean;
  for (int k = 2; !taken.insert(unique).second; ++k) unique = fmt::format("{}_{}", clean, k);
  return unique;
}

class Lowering : StageContext {
public:
  Program run(const std::vector<NamedOutput>& outputs, graph::Evaluate evaluate) {
    if (outputs.empty()) throw Error(ErrorKind::Value, "compile: no outputs, expected at least one");
    std::vector<NodeRef> roots;
    for (const NodeRef& value : with_short_indices(values_of(outputs))) roots.push_back(root_of(value));
    const std::vector<NodeRef> order = graph::topological_order(roots);
    collect_shape_vars(order);
    count_reads(order, roots);
    program_.stages.reserve(order.size());
    stage_of_.reserve(order.size());
    for (const NodeRef& node : order) {
      if (node->op == Op::Input) {
        add_input(node);
        continue;
      }
      if (is_propagated(*node)) continue;
      if (node->op == Op::Scan) {
        add_recurrence(node);
        continue;
      }
      // A Gather indexes a buffer: a source that has none, or isn't row-major in it, is copied into one.
      if (node->op == Op::Gather && !flat_source(node->sources[0])) {
        NodeRef copy = stored(node->sources[0]);
        NodeRef again = remake_gather(node, copy);
        add_stage(again);
        stage_of_.emplace(node.get(), stage_of_.at(again.get()));
        aliased_.push_back(node);
        continue;
      }
      add_stage(node);
    }
    for (size_t k = 0; k < outputs.size(); ++k) {
      const int stage = stage_of_.at(roots[k].get());
      program_.stages[static_cast<size_t>(stage)].is_output = true;
      program_.outputs.push_back(
          {outputs[k].name, stage, outputs[k].node->shape, outputs[k].node, outputs[k].declared});
    }
    for (Recurrence& recurrence : program_.recurrences) lower_body(recurrence, evaluate);
    return std::move(program_);
  }

private:
  static NodeRef make_node(Op op, DType dtype, Shape shape, std::vector<NodeRef> sources) {
    Node node;
    node.op = op;
    node.dtype = dtype;
    node.shape = std::move(shape);
    node.sources = std::move(sources);
    return intern(std::move(node));
  }
  /// The outputs without Function nodes, which mean nothing here. As a rule simplify() has removed them.
  static std::vector<NodeRef> values_of(const std::vector<NamedOutput>& outputs) {
    std::vector<NodeRef> nodes;
    for (const NamedOutput& output : outputs) nodes.push_back(output.node);
    return graph::rebuild(nodes, [](const NodeRef&, NodeRef rebuilt) {
      return rebuilt->op == Op::Function ? rebuilt->sources[0] : rebuilt;
    });
  }
  /// The node whose buffer is the output. For a plain reshape of a stage's node, that is the stage's node;
  /// for any other view, an input or a constant, it is a copy.
  static NodeRef root_of(const NodeRef& node) {
    if (!is_propagated(*node)) return node;
    const NodeRef flat = flat_source(node);
    return flat && flat->op != Op::Input ? flat : copy_of(node);
  }
  static NodeRef copy_of(const NodeRef& node) {
    return make_node(Op::Contiguous, node->dtype, node->shape, {node});
  }
  static NodeRef remake_gather(const NodeRef& node, const NodeRef& source) {
    return make_node(Op::Gather, node->dtype, node->shape, {source, node->sources[1]});
  }

  /// The node whose buffer holds the values of `node` in row-major order; a stage of its own, if need be.
  NodeRef stored(const NodeRef& node) {
    if (NodeRef flat = flat_source(node)) return flat;
    NodeRef copy = copy_of(node);
    if (!stage_of_.count(copy.get())) add_stage(copy);
    return copy;
  }

  /// Adds a stage for a result of a recurrence, and the recurrence at its first result.
  void add_recurrence(const NodeRef& node) {
    const auto& attr = std::get<graph::ScanAttr>(node->attr);
    const NodeRef key = graph::recurrence_of(node).result(0);
    const auto [known, is_new] = recurrence_of_.emplace(key.get(), program_.recurrences.size());
    if (is_new) {
      aliased_.push_back(key);
      Recurrence made{node, nullptr, {}, std::vector<int>(attr.body->results.size(), -1)};
      source_stages_.emplace_back();
      for (const NodeRef& source : node->sources) {
        const NodeRef from = stored(source);
        reads_.clear();
        made.sources.push_back(read(from));
        for (const int s : reads_) program_.stages[static_cast<size_t>(s)].is_output = true;
        source_stages_.back().insert(source_stages_.back().end(), reads_.begin(), reads_.end());
      }
      program_.recurrences.push_back(std::move(made));
    }
    Stage stage = begin_stage(node);
    stage.recurrence = static_cast<int>(known->second);
    program_.recurrences[known->second].stages[static_cast<size_t>(attr.result)] = stage.id;
    reads_ = source_stages_[known->second];
    end_stage(std::move(stage));
  }

  static void lower_body(Recurrence& recurrence, graph::Evaluate evaluate) {
    const auto& body = *std::get<graph::ScanAttr>(recurrence.node->attr).body;
    std::vector<NamedOutput> outputs;
    for (size_t k = 0; k < body.results.size(); ++k)
      if (body.is_state(k) || recurrence.stages[k] >= 0)
        outputs.push_back({fmt::format("r{}", k), body.results[k]});
    recurrence.body = std::make_shared<const Program>(lower(outputs, evaluate));
  }

  void collect_shape_vars(const std::vector<NodeRef>& order) {
    std::vector<Expr> vars;
    const auto take = [&](Expr e) {
      if (!e.is_const()) collect_vars(e, vars);
    };
    for (const NodeRef& node : graph::nodes_with_bodies(order)) {
      for (const Expr e : node->shape) take(e);
      if (const auto* scan = std::get_if<graph::ScanAttr>(&node->attr)) take(scan->steps);
      if (const auto* e = std::get_if<Expr>(&node->attr)) take(*e);
      if (const auto* view = std::get_if<View>(&node->attr)) {
        take(view->offset());
        for (const Expr e : view->strides()) take(e);
        for (const Interval& in : view->mask()) take(in.begin), take(in.end);
      }
    }
    std::sort(vars.begin(), vars.end(), [](Expr a, Expr b) { return a.name() < b.name(); });
    for (size_t k = 0; k < vars.size(); ++k) {
      if (k && vars[k].name() == vars[k - 1].name())
        throw Error(ErrorKind::Name,
                    fmt::format("compile: Var \"{0}\" has bounds [{1}, {2}] and [{3}, {4}] in one program, "
                                "expected one Var of that name",
                                vars[k].name(), vars[k - 1].lo(), vars[k - 1].hi(), vars[k].lo(),
                                vars[k].hi()));
      names_.insert(vars[k].name());
    }
    program_.shape_vars = std::move(vars);
  }

  void count_reads(const std::vector<NodeRef>& order, const std::vector<NodeRef>& roots) {
    for (const NodeRef& root : roots) ++read_count_[root.get()];
    for (const NodeRef& node : order) {
      if (node->op == Op::View) continue;
      for (const NodeRef& source : node->sources) {
        const Node* read = source.get();
        while (read->op == Op::View) read = read->sources[0].get();
        ++read_count_[read];
      }
    }
  }

  void add_input(const NodeRef& node) {
    const auto& attr = std::get<graph::InputAttr>(node->attr);
    if (!attr.name.empty() && !declared_.insert(attr.name).second)
      throw Error(ErrorKind::Name,
                  fmt::format("compile: input \"{}\" is declared with different shapes or dtypes, "
                              "expected one declaration",
                              attr.name));
    const std::string wanted = attr.name.empty() ? fmt::format("data{}", program_.inputs.size()) : attr.name;
    auto buffer = ast::make_buffer({next_buffer(), buffer_name(wanted, names_), node->dtype, node->shape});
    program_.stage_of_buffer.push_back(-1);
    input_of_.emplace(node.get(), program_.inputs.size());
    program_.inputs.push_back({std::move(buffer), node, attr.data != nullptr});
  }

  void add_stage(const NodeRef& node) {
    Stage stage = begin_stage(node);
    reads_.clear();
    build_nests(stage, *this);
    end_stage(std::move(stage));
  }

  Stage begin_stage(const NodeRef& node) {
    Stage stage;
    stage.id = static_cast<int>(program_.stages.size());
    stage.node = node;
    stage.buffer = ast::make_buffer({next_buffer(), fmt::format("t{}", stage.id), node->dtype, node->shape});
    program_.stage_of_buffer.push_back(stage.id);
    return stage;
  }

  /// Notes that the stage reads those of reads_.
  void end_stage(Stage stage) {
    std::sort(reads_.begin(), reads_.end());
    reads_.erase(std::unique(reads_.begin(), reads_.end()), reads_.end());
    for (const int read : reads_) program_.stages[static_cast<size_t>(read)].users.push_back(stage.id);
    stage.reads = reads_;
    stage_of_.emplace(stage.node.get(), stage.id);
    program_.stages.push_back(std::move(stage));
  }

  int next_buffer() const { return static_cast<int>(program_.stage_of_buffer.size()); }

  ast::BufferRef read(const NodeRef& node) override {
    if (node->op == Op::Input) return program_.inputs[input_of_.at(node.get())].buffer;
    const auto found = stage_of_.find(node.get());
    if (found == stage_of_.end())
      throw InternalError(fmt::format("lower: {} is read before it is computed", to_string(node->op)));
    reads_.push_back(found->second);
    return program_.stages[static_cast<size_t>(found->second)].buffer;
  }
  bool is_shared(const Node& node) const override { return read_count_.at(&node) > 1; }
  Expr make_loop(const std::string& name, Expr extent) override {
    return loop_var(next_loop_++, name, extent);
  }

  Program program_;
  std::unordered_map<const Node*, int> stage_of_;
  std::unordered_map<const Node*, size_t> input_of_;
  std::unordered_map<const Node*, int> read_count_;       // by ops and outputs, through any views
  std::unordered_map<const Node*, size_t> recurrence_of_; // by the node of result 0
  std::vector<std::vector<int>> source_stages_;           // by recurrence: the stages that it reads
  std::vector<NodeRef>
      aliased_; // Gathers that were remade and others: kept alive while their addresses are keys
  std::unordered_set<std::string> names_, declared_;
  std::vector<int> reads_;
  int next_loop_ = 0;
};

} // namespace

Program lower(const std::vector<NamedOutput>& outputs, graph::Evaluate evaluate) {
  Program program = Lowering().run(outputs, evaluate);
  program.expressions = current_expr_scope();
  program.evaluate = evaluate;
  return program;
}

} // namespace lathe::lower
