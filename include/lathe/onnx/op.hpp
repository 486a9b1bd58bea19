// How an ONNX op becomes tensor arithmetic, and how to add one of your own.
//
// An importer is a function of a Call: one node with its inputs and attributes. It returns the node's outputs, made by the
// Tensor API. An attribute that the node has and the importer did not ask for is an error that names it, so nothing is
// ignored silently.
//
//   onnx::register_op("my.domain", "Scale", 1, [](onnx::Call& call) -> std::vector<onnx::Value> {
//     return {call.tensor(0) * call.number("factor", 1.0)};
//   });
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/onnx/value.hpp"

namespace lathe::onnx {

struct Port;

/// Whether the nodes of a body may look at values that depend on what the model is fed.
enum class Looks { Allowed, Refused };

class Call {
 public:
  const std::string& op() const;
  const std::string& node() const;    ///< the node's name; if it has none, that of its first output
  int opset() const;                  ///< version of the op's domain that the model asks for
  /// Throws Error beginning with op, node and opset.
  [[noreturn]] void fail(ErrorKind kind, const std::string& message) const;

  // ---- inputs and outputs, by position ----
  size_t input_count() const;         ///< as the node lists them; some may be left out
  size_t output_count() const;
  bool has(size_t input) const;       ///< given, and not None
  bool wants(size_t output) const;    ///< named by the node
  Value value(size_t input) const;
  /// Error(Value) naming the input if it is left out or no tensor of numbers.
  Tensor tensor(size_t input) const;
  std::optional<Tensor> optional_tensor(size_t input) const;

  // ---- values that decide a shape or a way to go ----
  // They are known at once where they are constants or sizes of tensors. Where they depend on what the model is fed, the program
  // stops here, looks, and goes on with a program made for what it saw: see Program in model.hpp.
  /// All elements of an integer or bool tensor; Error(Shape) for sizes that are not fixed.
  std::vector<int64_t> integers(size_t input);
  int64_t integer_at(size_t input);                ///< of its only element
  std::vector<double> numbers(size_t input);       ///< all elements, of any dtype
  double number_at(size_t input);
  /// All elements as sizes, which may be symbolic: the program goes on for other sizes, too, where it can.
  Shape sizes(size_t input);
  /// The elements of a computed tensor. `kept`: what the importer goes on with, so that it is not computed again afterwards.
  std::vector<int64_t> look(const Tensor& tensor, std::vector<Value>* kept = nullptr);
  /// The same of integers that are sizes, which may be symbolic.
  Shape look_at_sizes(const Tensor& tensor, std::vector<Value>* kept = nullptr);
  /// The shape as numbers; Error(Shape) where it is symbolic.
  std::vector<int64_t> fixed_shape(const Tensor& tensor) const;

  // ---- attributes; those without a default are required ----
  bool has_attribute(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t otherwise) const;
  double number(std::string_view name) const;
  double number(std::string_view name, double otherwise) const;
  std::string text(std::string_view name) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> integers(std::string_view name) const;
  std::vector<int64_t> integers(std::string_view name, std::vector<int64_t> otherwise) const;
  std::vector<double> numbers(std::string_view name, std::vector<double> otherwise = {}) const;
  std::vector<std::string> texts(std::string_view name, std::vector<std::string> otherwise = {}) const;
  Value constant(std::string_view name) const;     ///< a tensor attribute
  /// An attribute that holds ONNX's number of an element type.
  DType dtype(std::string_view name) const;
  DType dtype(std::string_view name, DType otherwise) const;
  /// Says that an attribute has no bearing on the result.
  void ignore(std::string_view name) const;

  // ---- bodies of If, Loop and Scan ----
  size_t body_input_count(std::string_view attribute) const;
  size_t body_output_count(std::string_view attribute) const;
  /// An output as the body declares it, which may leave its type and shape open.
  const Port& body_output(std::string_view attribute, size_t output) const;
  /// Runs the body in the node's surroundings, whose values it may use by name.
  std::vector<Value> run_body(std::string_view attribute, const std::vector<Value>& arguments, Looks looks = Looks::Allowed);

  struct Impl;
  explicit Call(Impl& impl) : impl_(impl) {}

 private:
  Impl& impl_;
};

using OpImporter = std::function<std::vector<Value>(Call&)>;

/// Adds an op for models that ask for `domain` at version `since` or later, up to the next registered version; replaces one that is
/// there. "" is ONNX's own domain. Thread-safe.
void register_op(const std::string& domain, const std::string& op, int since, OpImporter import);

}  // namespace lathe::onnx
