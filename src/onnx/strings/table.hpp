// Strings as numbers. A kernel sees a tensor of strings as ids, so that strings which are equal have equal
// ids, and moving them costs no more than moving integers. A program has a table of the strings that its
// kernels name; each call adds those that it meets.
#pragma once
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lathe/onnx/value.hpp"

namespace lathe::onnx {

/// Strings by position. They stay where they are, so that views of them last as long as the list.
class StringList {
public:
  StringList() = default;
  StringList(const StringList&) = delete;
  StringList& operator=(const StringList&) = delete;

  int64_t size() const { return static_cast<int64_t>(texts_.size()); }
  const std::string& at(int64_t position) const { return texts_.at(static_cast<size_t>(position)); }
  /// Nothing if it is not there.
  std::optional<int64_t> find(std::string_view text) const;
  /// Its position, at the end if it was not there.
  int64_t add(std::string_view text);

private:
  std::deque<std::string> texts_;
  std::unordered_map<std::string_view, int64_t> positions_;
};

/// The strings that a program's kernels name: ids from 0 on, of which 0 is "", as elements that padding makes
/// are 0. It only grows. Thread-safe.
class StringTable {
public:
  StringTable();
  int64_t size() const;
  int64_t add(std::string_view text);
  std::string at(int64_t id) const; ///< Error(Value) for an id that is not there
  /// Of those with an id below `known`.
  std::optional<int64_t> find(std::string_view text, int64_t known) const;
  std::vector<std::string> all() const;

private:
  mutable std::mutex mutex_;
  StringList list_;
};

/// The strings of one call: those that the table has when it begins, and others, whose ids are negative. A
/// segment made for a longer table may know one of the others by another id, so that such a call has to begin
/// again.
class CallStrings {
public:
  explicit CallStrings(const StringTable& table) : table_(table), known_(table.size()) {}
  int64_t known() const { return known_; } ///< the table's size when the call began
  int64_t id(std::string_view text);
  std::string at(int64_t id) const;

  Tensor ids(const Value& strings);
  Value strings(const Tensor& ids) const;

private:
  const StringTable& table_;
  int64_t known_;
  StringList others_;
};

/// Ids in a tensor of a shape.
Tensor tensor_of_ids(const std::vector<int64_t>& ids, const Shape& shape);

} // namespace lathe::onnx
