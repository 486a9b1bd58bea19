#include "onnx/strings/table.hpp"

namespace lathe::onnx {

std::optional<int64_t> StringList::find(std::string_view text) const {
  const auto found = positions_.find(text);
  return found == positions_.end() ? std::nullopt : std::optional(found->second);
}

int64_t StringList::add(std::string_view text) {
  if (const auto found = find(text)) return *found;
  const int64_t position = size();
  positions_.emplace(texts_.emplace_back(text), position);
  return position;
}

StringTable::StringTable() { list_.add(""); }

int64_t StringTable::size() const {
  const std::lock_guard lock(mutex_);
  return list_.size();
}

int64_t StringTable::add(std::string_view text) {
  const std::lock_guard lock(mutex_);
  return list_.add(text);
}

std::string StringTable::at(int64_t id) const {
  const std::lock_guard lock(mutex_);
  if (id < 0 || id >= list_.size())
    throw Error(ErrorKind::Value, "no string has id " + std::to_string(id) + ", expected one below " +
                                      std::to_string(list_.size()));
  return list_.at(id);
}

std::optional<int64_t> StringTable::find(std::string_view text, int64_t known) const {
  const std::lock_guard lock(mutex_);
  const std::optional<int64_t> found = list_.find(text);
  return found && *found < known ? found : std::nullopt;
}

std::vector<std::string> StringTable::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> texts;
  for (int64_t id = 0; id < list_.size(); ++id) texts.push_back(list_.at(id));
  return texts;
}

int64_t CallStrings::id(std::string_view text) {
  if (const auto found = table_.find(text, known_)) return *found;
  return -1 - others_.add(text);
}

std::string CallStrings::at(int64_t id) const {
  if (id >= 0) return table_.at(id);
  if (-1 - id >= others_.size())
    throw Error(ErrorKind::Value, "no string has id " + std::to_string(id) + " in this call");
  return others_.at(-1 - id);
}

Tensor CallStrings::ids(const Value& strings) {
  std::vector<int64_t> ids;
  for (const std::string& text : strings.texts()) ids.push_back(id(text));
  return tensor_of_ids(ids, strings.shape());
}

Value CallStrings::strings(const Tensor& ids) const {
  std::vector<std::string> texts;
  for (const int64_t id : ids.to_vector<int64_t>()) texts.push_back(at(id));
  return Value::strings(std::move(texts), ids.shape());
}

Tensor tensor_of_ids(const std::vector<int64_t>& ids, const Shape& shape) {
  return ids.empty() ? Tensor::zeros(shape, DType::I64)
                     : Tensor::from_memory(ids.data(), ids.size(), DType::I64, shape);
}

} // namespace lathe::onnx
