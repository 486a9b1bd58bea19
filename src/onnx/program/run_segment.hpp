// Running the segments of a program that are made.
#pragma once
#include "onnx/program/program.hpp"

namespace lathe::onnx {

/// What a call has computed so far: values by the names that stand for them in tensors, the strings that the
/// ids among them mean, and the sizes that have variables.
struct Store {
  NamedTensors values;
  CallStrings strings;
  Sizes sizes{};
};

/// Thrown where a segment has been made that knows more strings than the call began with.
struct BeginAgain {};

/// Computes the segment's values.
void run(const Segment& segment, Store& store);
/// Runs an op of the host, whose outputs follow in the store. Returns their sizes; `made`: the outputs
/// themselves.
std::vector<Scalar> run(const HostStep& step, Store& store, std::vector<Value>* made = nullptr);
/// The elements of a value in the store.
std::vector<Scalar> look_at(const Store& store, const std::string& name);

/// A value of which named inputs stand for tensors, with what they are and its strings' texts.
Value at_hand(const Value& value, const Store& store);
/// Integers made of sizes that have variables, as numbers.
Value at_sizes(const Value& value, const Sizes& sizes);

} // namespace lathe::onnx
