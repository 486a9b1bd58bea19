// Programs to files and back: the segments' code and all tensors as parts of a saved program, and the tree,
// with the model if more segments may be needed, as its text.
#include <fmt/format.h>

#include <algorithm>
#include <climits>

#include "lathe/detail/access.hpp"
#include "lathe/program_file.hpp"
#include "lathe_onnx_program.pb.h"
#include "onnx/parse.hpp"
#include "onnx/program/inputs.hpp"
#include "onnx/write_model.hpp"

namespace lathe::onnx {
namespace {

using lathe_onnx::SavedHostStep;
using lathe_onnx::SavedProgram;
using lathe_onnx::SavedSegment;
using lathe_onnx::SavedSize;
using lathe_onnx::SavedValue;

constexpr const char* kFormat = "onnx";

/// What the file holds apart, for a program and the bodies of its loops.
struct Apart {
  TensorTable tensors;
  std::vector<Executable> code;
};

/// Writes a program, whose mutex the caller holds.
class Saver {
public:
  Saver(const Program::Impl& program, Apart& apart) : program_(program), apart_(apart) {}

  SavedProgram run() {
    write_options();
    proto_.set_symbolic(program_.symbolic);
    proto_.set_looks(program_.looks);
    proto_.set_variables_made(program_.variables);
    proto_.set_is_body(program_.is_body);
    proto_.set_largest_size(program_.largest_size);
    for (const auto& [name, size] : program_.smallest_sizes)
      write_size(*proto_.add_smallest_sizes(), name, size);
    for (const auto& [name, step] : program_.steps) write_size(*proto_.add_steps(), name, step);
    for (const auto& [name, size] : program_.pinned) write_size(*proto_.add_pinned(), name, size);
    for (const auto& [shapes, root] : program_.roots) {
      if (!root->made) continue;
      auto& saved = *proto_.add_roots();
      saved.set_shapes(shapes);
      saved.set_segment(add(*root));
    }
    // Grows as it goes: the segments behind one follow it.
    for (size_t k = 0; k < segments_.size(); ++k) write_segment(*segments_[k]);
    write_strings();
    write_variables();
    if (program_.is_closed())
      write_ports();
    else
      *proto_.mutable_model() = write_model(*program_.model, apart_.tensors);
    return std::move(proto_);
  }

private:
  uint32_t add(const Segment& segment) {
    segments_.push_back(&segment);
    return static_cast<uint32_t>(segments_.size() - 1);
  }

  static void write_size(SavedSize& saved, const std::string& name, int64_t value) {
    saved.set_name(name);
    saved.set_value(value);
  }

  void write_options() {
    const ImportOptions& options = program_.options;
    for (const auto& [name, value] : options.sizes) write_size(*proto_.add_sizes(), name, value);
    proto_.set_device(options.compile.device);
    proto_.set_threads(options.compile.threads);
    proto_.set_cpu(options.compile.cpu);
    proto_.set_winograd(options.compile.winograd);
    proto_.set_strassen(options.compile.strassen);
    proto_.set_use_database(options.compile.use_database);
    proto_.set_versions(options.versions);
    for (const std::string& name : program_.version_sizes) proto_.add_version_sizes(name);
  }

  void write_strings() {
    const std::vector<std::string> texts = program_.strings.all();
    for (size_t id = 1; id < texts.size(); ++id) proto_.add_strings(texts[id]);
  }

  void write_variables() {
    for (const Expr variable : variables_) {
      auto& saved = *proto_.add_variables();
      saved.set_name(variable.name());
      saved.set_least(variable.lo());
      saved.set_largest(variable.hi());
      saved.set_typical(variable.typical());
    }
  }

  void write_ports() {
    for (const Port& port : program_.model->inputs) *proto_.add_inputs() = write_port(port);
    for (const Port& port : program_.model->graph.outputs) *proto_.add_outputs() = write_port(port);
  }

  void write_segment(const Segment& segment) {
    SavedSegment saved;
    if (segment.code) {
      saved.set_code(static_cast<uint32_t>(apart_.code.size()));
      apart_.code.push_back(segment.code->now());
    }
    saved.set_looked_at(segment.looked_at);
    saved.set_strings(segment.strings);
    saved.set_looks_at_sizes(segment.looks_at_sizes);
    if (segment.host) write_host(*saved.mutable_host(), *segment.host);
    for (const auto& [seen, next] : segment.next) {
      if (!next->made) continue;
      auto& branch = *saved.add_branches();
      for (const Scalar& element : seen) {
        unsigned char bytes[8];
        element.to_memory(bytes);
        branch.set_dtype(to_string(element.dtype()));
        branch.mutable_seen()->append(reinterpret_cast<const char*>(bytes),
                                      static_cast<size_t>(size_of(element.dtype())));
      }
      branch.set_segment(add(*next));
    }
    for (const OpenBranch& open : segment.open) {
      if (open.state == OpenBranch::State::Trying) continue;
      auto& branch = *saved.add_open_branches();
      for (const Expr number : open.numbers) {
        collect_vars(number, variables_);
        branch.add_numbers(to_string(number));
      }
      branch.set_refused(open.state == OpenBranch::State::Refused);
      if (open.segment) branch.set_segment(add(*open.segment));
    }
    for (const auto& [name, size] : segment.made_at) write_size(*saved.add_made_at(), name, size);
    for (const auto& [name, value] : segment.results) {
      auto& result = *saved.add_results();
      result.set_name(name);
      write_value(*result.mutable_value(), value);
    }
    *proto_.add_segments() = std::move(saved);
  }

  void write_host(SavedHostStep& saved, const HostStep& step) {
    saved.set_op(step.op.name);
    for (const std::string& text : step.op.texts) saved.add_texts(text);
    for (const int64_t number : step.op.integers) saved.add_integers(number);
    for (const Value& input : step.inputs) write_value(*saved.add_inputs(), input);
    for (const std::string& output : step.outputs) saved.add_outputs(output);
    if (!step.loop_body) return;
    const std::lock_guard lock(step.loop_body->mutex);
    *saved.mutable_loop() = Saver(*step.loop_body, apart_).run();
  }

  void write_value(SavedValue& saved, const Value& value) {
    saved.set_dtype(to_string(value.dtype()));
    if (value.is_none()) return;
    if (value.is_map() || value.is_map_rows()) {
      saved.set_kind(value.is_map() ? SavedValue::MAP : SavedValue::MAP_ROWS);
      for (const Value* part : {&value.keys(), &value.values()}) write_value(*saved.add_elements(), *part);
      return;
    }
    if (value.is_sequence()) {
      saved.set_kind(SavedValue::SEQUENCE);
      for (const Value& element : value.elements()) write_value(*saved.add_elements(), element);
      return;
    }
    saved.set_kind(value.is_strings() ? SavedValue::STRINGS : SavedValue::TENSOR);
    for (const Expr size : value.shape()) saved.add_shape(to_string(size));
    if (value.integers()) {
      saved.set_has_integers(true);
      for (const Expr element : *value.integers()) saved.add_integers(to_string(element));
    }
    if (value.is_strings() && !value.ids()) {
      for (const std::string& text : value.texts()) saved.add_texts(text);
      return;
    }
    const Tensor& tensor = value.is_strings() ? *value.ids() : value.tensor();
    const std::vector<std::string> named = tensor.inputs();
    if (!named.empty())
      saved.set_input(named[0]);
    else if (!has_symbols(value)) // which are known by their integers alone
      saved.set_tensor(apart_.tensors.add(tensor));
  }

  const Program::Impl& program_;
  Apart& apart_;
  SavedProgram proto_;
  std::vector<const Segment*> segments_;
  std::vector<Expr> variables_; // in open branches
};

[[noreturn]] void fail_to_load(const Source& source, const std::string& what) {
  source.fail(what + ", expected a program as onnx::save() wrote it");
}

class Loader {
public:
  Loader(const std::string& path, const SavedParts& parts, const SavedProgram& proto)
      : source_{path, "", &parts.tensors}, parts_(parts), proto_(proto) {}

  std::shared_ptr<Program::Impl> run() {
    auto program = std::make_shared<Program::Impl>();
    program->options = read_options();
    program->symbolic = proto_.symbolic();
    if (proto_.has_largest_size()) program->largest_size = proto_.largest_size();
    for (const auto& size : proto_.smallest_sizes()) program->smallest_sizes[size.name()] = size.value();
    program->model = read_ports_or_model();
    for (const auto& size : proto_.steps()) {
      if (size.value() < 1) fail("a size is a multiple of nothing");
      program->steps[size.name()] = size.value();
    }
    for (const auto& size : proto_.pinned()) program->pinned[size.name()] = size.value();
    add_named_variables(*program);
    for (const auto& saved : proto_.variables())
      variables_.insert_or_assign(saved.name(),
                                  Var(saved.name(), saved.least(), saved.largest(), saved.typical()).expr());
    program->looks = proto_.looks();
    program->variables = proto_.variables_made();
    program->is_body = proto_.is_body();
    program->version_sizes = {proto_.version_sizes().begin(), proto_.version_sizes().end()};
    for (const std::string& text : proto_.strings()) program->strings.add(text);
    if (program->strings.size() != proto_.strings_size() + 1) fail("it has a string twice");
    std::vector<std::unique_ptr<Segment>> segments;
    for (int k = 0; k < proto_.segments_size(); ++k) segments.push_back(std::make_unique<Segment>());
    // Each is taken by the one in front of it that goes on there: the others are whole when it is.
    for (int k = proto_.segments_size() - 1; k >= 0; --k)
      read_segment(proto_.segments(k), static_cast<uint32_t>(k), segments);
    for (const auto& root : proto_.roots()) program->roots[root.shapes()] = take(segments, root.segment());
    const bool is_whole = proto_.has_model() || (program->is_closed() && program->roots.count(""));
    if (!is_whole) fail("it is not whole");
    return program;
  }

private:
  [[noreturn]] void fail(const std::string& what) const { fail_to_load(source_, what); }

  ImportOptions read_options() const {
    ImportOptions options;
    for (const auto& size : proto_.sizes()) options.sizes[size.name()] = size.value();
    options.compile.device = proto_.device();
    options.compile.threads = proto_.threads();
    options.compile.cpu = proto_.cpu();
    options.compile.winograd = proto_.winograd();
    options.compile.strassen = proto_.strassen();
    options.compile.use_database = proto_.use_database();
    options.versions = proto_.versions();
    return options;
  }

  std::shared_ptr<const Model::Impl> read_ports_or_model() const {
    if (proto_.has_model()) return read_model(source_, proto_.model());
    auto model = std::make_shared<Model::Impl>();
    model->path = source_.name;
    for (const auto& port : proto_.inputs())
      model->inputs.push_back(read_port(source_, port.name(), port.type()));
    for (const auto& port : proto_.outputs())
      model->graph.outputs.push_back(read_port(source_, port.name(), port.type()));
    return model;
  }

  std::unique_ptr<Segment> take(std::vector<std::unique_ptr<Segment>>& segments, uint32_t position) const {
    if (position >= segments.size() || !segments[position]) fail("a segment is missing");
    return std::move(segments[position]);
  }

  void read_segment(const SavedSegment& saved, uint32_t position,
                    std::vector<std::unique_ptr<Segment>>& segments) const {
    Segment& segment = *segments[position];
    if (saved.has_code()) {
      if (saved.code() >= parts_.programs.size()) fail("a segment's code is missing");
      segment.code = std::make_shared<SegmentCode>(parts_.programs[saved.code()]);
    }
    segment.looked_at = saved.looked_at();
    segment.strings = saved.strings();
    segment.looks_at_sizes = saved.looks_at_sizes();
    if (segment.strings > proto_.strings_size() + 1) fail("a segment's strings are missing");
    if (saved.has_host()) segment.host = read_host(saved.host());
    for (const auto& branch : saved.branches()) {
      if (branch.segment() <= position) fail("its segments go in circles");
      segment.next[read_seen(branch)] = take(segments, branch.segment());
    }
    for (const auto& branch : saved.open_branches()) {
      segment.open.push_back({exprs(branch.numbers()), nullptr, nullptr, OpenBranch::State::Refused});
      if (branch.refused()) continue;
      if (branch.segment() <= position) fail("its segments go in circles");
      segment.open.back().segment = take(segments, branch.segment());
      segment.open.back().state = OpenBranch::State::Taken;
    }
    for (const auto& size : saved.made_at()) segment.made_at[size.name()] = size.value();
    for (const auto& result : saved.results())
      segment.results.emplace_back(result.name(), read_value(result.value()));
    segment.made = true;
    segment.completed = segment.is_last() || !segment.next.empty() ||
                        std::any_of(segment.open.begin(), segment.open.end(), [](const OpenBranch& branch) {
                          return branch.state == OpenBranch::State::Taken;
                        });
  }

  std::vector<Scalar> read_seen(const SavedSegment::Branch& branch) const {
    std::vector<Scalar> seen;
    if (branch.seen().empty()) return seen;
    const DType dtype = parse_dtype(branch.dtype());
    const auto width = static_cast<size_t>(size_of(dtype));
    if (branch.seen().size() % width != 0) fail("a branch is for part of an element");
    for (size_t at = 0; at < branch.seen().size(); at += width)
      seen.push_back(Scalar::from_memory(dtype, branch.seen().data() + at));
    return seen;
  }

  HostStep read_host(const SavedHostStep& saved) const {
    HostStep step;
    step.op.name = saved.op();
    step.op.texts.assign(saved.texts().begin(), saved.texts().end());
    step.op.integers.assign(saved.integers().begin(), saved.integers().end());
    for (const SavedValue& input : saved.inputs()) step.inputs.push_back(read_value(input));
    step.outputs.assign(saved.outputs().begin(), saved.outputs().end());
    if (saved.has_loop()) step.loop_body = read_loop(saved, step);
    if (!step.loop_body && step.outputs.size() != HostStep::kOutputs)
      fail("an op of the host has no names for its outputs");
    return step;
  }

  std::shared_ptr<Program::Impl> read_loop(const SavedHostStep& saved, const HostStep& step) const {
    std::shared_ptr<Program::Impl> body = Loader(source_.name, parts_, saved.loop()).run();
    const size_t outputs = body->model->graph.outputs.size(), inputs = body->model->inputs.size();
    const bool is_whole = step.op.integers.size() == 1 && step.op.texts.size() == 1 &&
                          step.op.integers[0] >= 0 && outputs > 0 && step.outputs.size() == outputs - 1 &&
                          step.inputs.size() == inputs + 1 &&
                          static_cast<size_t>(step.op.integers[0]) < std::min(inputs, outputs);
    if (!is_whole || !body->is_body) fail("the body of a loop is not whole");
    return body;
  }

  Value read_value(const SavedValue& saved) const {
    if (saved.kind() == SavedValue::NONE) return Value();
    if (saved.kind() == SavedValue::MAP || saved.kind() == SavedValue::MAP_ROWS) {
      if (saved.elements_size() != 2) fail("a map has no keys or no values");
      const Value keys = read_value(saved.elements(0)), values = read_value(saved.elements(1));
      return saved.kind() == SavedValue::MAP ? Value::map(keys, values)
                                             : Value::map_rows(keys, values.tensor());
    }
    if (saved.kind() == SavedValue::SEQUENCE) {
      std::vector<Value> elements;
      for (const SavedValue& element : saved.elements()) elements.push_back(read_value(element));
      return Value::sequence(parse_dtype(saved.dtype()), std::move(elements));
    }
    const Shape shape = exprs(saved.shape());
    if (saved.kind() == SavedValue::STRINGS) {
      if (saved.has_input() || saved.has_tensor())
        return Value::strings(read_tensor_value(saved, shape, DType::I64));
      return Value::strings({saved.texts().begin(), saved.texts().end()}, shape);
    }
    const Value value = read_tensor_value(saved, shape, parse_dtype(saved.dtype()));
    return saved.has_integers() ? value.with_integers(exprs(saved.integers())) : value;
  }

  Tensor read_tensor_value(const SavedValue& saved, const Shape& shape, DType dtype) const {
    if (saved.has_input()) return Tensor::input(saved.input(), shape, dtype);
    if (saved.has_tensor()) {
      if (saved.tensor() >= parts_.tensors.size()) fail("a tensor is missing");
      return parts_.tensors[saved.tensor()];
    }
    return Tensor::zeros(shape, dtype); // its integers say what it is
  }

  /// Those of the tree for all sizes.
  void add_named_variables(const Program::Impl& program) {
    const Declared declared = declared_for_all_sizes(program);
    for_each_named_size(program.model->inputs, [&](Expr size) {
      const Var variable = variable_of_size(size, declared);
      variables_.emplace(variable.name(), variable.expr());
    });
  }

  template <class Texts> std::vector<Expr> exprs(const Texts& texts) const {
    std::vector<Expr> out;
    for (const std::string& text : texts)
      out.push_back(parse_expr(text, [&](std::string_view name) {
        if (const auto open = variables_.find(name); open != variables_.end()) return open->second;
        return Var(name, 1, kLargestNamedSize).expr();
      }));
    return out;
  }

  Source source_;
  const SavedParts& parts_;
  const SavedProgram& proto_;
  std::map<std::string, Expr, std::less<>> variables_;
};

} // namespace

void save(const Program& program, const std::string& path) {
  try {
    make_for_all_sizes(*detail::impl(program)); // so that a loaded program compiles as little as can be
  } catch (const Error&) {                      // then its calls make what they need
  }
  program.wait_for_best();
  Apart apart;
  SavedParts parts{.format = kFormat};
  {
    const std::lock_guard lock(detail::impl(program)->mutex);
    parts.text = Saver(*detail::impl(program), apart).run().SerializeAsString();
  }
  parts.programs = std::move(apart.code);
  parts.tensors = apart.tensors.take();
  lathe::save(parts, path);
}

Program load_program(const std::string& path) {
  const SavedParts parts = load_parts(path);
  if (parts.format != kFormat)
    throw Error(ErrorKind::File, fmt::format("{}: is a program of format '{}', expected one of an ONNX model",
                                             path, parts.format));
  SavedProgram proto;
  if (parts.text.size() > INT_MAX ||
      !proto.ParseFromArray(parts.text.data(), static_cast<int>(parts.text.size())))
    fail_to_load(Source{path, "", {}}, "its text can't be read");
  try {
    return detail::Access::make<Program>(Loader(path, parts, proto).run());
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::File) throw;
    throw Error(ErrorKind::File,
                fmt::format("{}: {}, expected a program as onnx::save() wrote it", path, error.what()));
  }
}

} // namespace lathe::onnx
