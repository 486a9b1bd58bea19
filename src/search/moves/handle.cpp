#include "search/moves/handle.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "core/hash.hpp"
#include "core/scanner.hpp"

namespace lathe::search {

struct HandleNode {
  const HandleNode* parent;
  Part part;
  int number; // -1: the part has none
  int stage;
  uint64_t hash;
  std::string name;

  static const HandleNode* intern(const HandleNode* parent, Part part, int number, std::string_view input);
};

namespace {

struct Spelling {
  Part part;
  std::string_view text;
  bool is_numbered;
  bool is_buffer;
};
constexpr Spelling kParts[] = {
    {Part::Axis, "i", true, false},       {Part::Reducing, "r", true, false},
    {Part::Setting, "z", true, false},    {Part::Outer, "o", false, false},
    {Part::Inner, "i", false, false},     {Part::Accumulator, "a", true, true},
    {Part::Packed, "p", true, true},      {Part::Constant, "k", true, true},
    {Part::Filling, "c", true, false},    {Part::Writing, "w", true, false},
    {Part::Summing, "q", true, false},    {Part::Clearing, "f", true, false},
    {Part::Border, "b", true, false},     {Part::Storing, "s", true, false},
    {Part::First, "first", false, false}, {Part::Later, "later", false, false},
};

const Spelling& spelling_of(Part part) {
  for (const Spelling& s : kParts)
    if (s.part == part) return s;
  throw InternalError("a part of a name without a spelling");
}

std::string spell(const HandleNode* parent, Part part, int number, std::string_view input) {
  if (part == Part::Input) return std::string(input);
  if (part == Part::Stage) return fmt::format("t{}", number);
  const Spelling& s = spelling_of(part);
  return s.is_numbered ? fmt::format("{}.{}{}", parent->name, s.text, number)
                       : fmt::format("{}.{}", parent->name, s.text);
}

bool is_buffer(Part part) {
  return part == Part::Stage || part == Part::Input || spelling_of(part).is_buffer;
}

/// Whether `part` may follow `whole` in a name. The halves of a split follow loops; all other parts follow a
/// buffer or a border.
bool may_follow(Part whole, Part part) {
  const bool is_half = part == Part::Outer || part == Part::Inner;
  return is_half ? !is_buffer(whole) && whole != Part::Border : is_buffer(whole) || whole == Part::Border;
}

/// The number in a name, which consists of one to eight digits; nothing for other text.
std::optional<int> to_number(std::string_view digits) {
  if (digits.empty() || digits.size() > 8 || !is_digit(digits[0])) return {};
  return to_integer<int>(digits);
}

/// All names of the process, found by their text. Names of equal text are the same name.
class Names {
public:
  const HandleNode* find_or_make(const HandleNode* parent, Part part, int number, std::string_view input) {
    std::string name = spell(parent, part, number, input);
    {
      const std::shared_lock lock(mutex_);
      if (const auto it = nodes_.find(name); it != nodes_.end()) return it->second.get();
    }
    const std::unique_lock lock(mutex_);
    auto& node = nodes_[name];
    if (!node) {
      const int stage = parent ? parent->stage : part == Part::Stage ? number : -1;
      const uint64_t hash = hash_text(name);
      node = std::make_unique<HandleNode>(HandleNode{parent, part, number, stage, hash, std::move(name)});
    }
    return node.get();
  }

private:
  std::shared_mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<HandleNode>> nodes_;
};

Names& names() {
  static auto* all = new Names; // never destroyed: other globals may still compile plans at exit
  return *all;
}

} // namespace

const HandleNode* HandleNode::intern(const HandleNode* parent, Part part, int number,
                                     std::string_view input) {
  return names().find_or_make(parent, part, number, input);
}

const std::string& Handle::name() const {
  static const auto* none = new std::string("nothing");
  return node_ ? node_->name : *none;
}
Part Handle::part() const { return node_->part; }
int Handle::stage() const { return node_ ? node_->stage : -1; }
uint64_t Handle::hash() const { return node_ ? node_->hash : 0; }

Handle Handle::child(Part part, int number) const {
  return Handle(HandleNode::intern(node_, part, number, {}));
}

Handle Handle::with_root(Handle root) const {
  if (!node_->parent) return root;
  return Handle(node_->parent).with_root(root).child(node_->part, node_->number);
}

LoopHandle LoopHandle::setting() const {
  if (!node_->parent) return *this;
  if (node_->part == Part::Axis) return LoopHandle(Handle(node_->parent).child(Part::Setting, node_->number));
  return LoopHandle(LoopHandle(Handle(node_->parent)).setting().child(node_->part, node_->number));
}

LoopHandle LoopHandle::in_border(int number) const {
  const BufferHandle slab = BufferHandle::of_stage(stage()).copy(Part::Border, number);
  return LoopHandle(with_root(slab));
}

bool LoopHandle::is_part_of(LoopHandle whole) const {
  for (const HandleNode* at = node_; at; at = at->parent)
    if (at == whole.node_) return true;
  return false;
}

BufferHandle BufferHandle::of_stage(int stage) {
  return BufferHandle(Handle(HandleNode::intern(nullptr, Part::Stage, stage, {})));
}
BufferHandle BufferHandle::of_input(std::string_view name) {
  return BufferHandle(Handle(HandleNode::intern(nullptr, Part::Input, -1, name)));
}

/// The handle of this name; an empty one if the text is no name.
Handle parse_handle(std::string_view text) {
  const size_t dot = text.find('.');
  const std::string_view root = text.substr(0, dot);
  const auto stage = root.starts_with('t') ? to_number(root.substr(1)) : std::nullopt;
  if (!stage) { // an input's name has no parts
    if (text.empty() || is_digit(text[0]) || !std::all_of(text.begin(), text.end(), is_word)) return {};
    return BufferHandle::of_input(text);
  }
  Handle at = BufferHandle::of_stage(*stage);
  for (size_t begin = dot; begin != std::string_view::npos;) {
    const size_t end = text.find('.', begin + 1);
    const std::string_view part =
        text.substr(begin + 1, end == std::string_view::npos ? end : end - begin - 1);
    const size_t digits = std::min(part.find_first_of("0123456789"), part.size());
    const auto number = to_number(part.substr(digits));
    const Spelling* found = nullptr;
    for (const Spelling& s : kParts)
      if (s.text == part.substr(0, digits) && (s.is_numbered ? number.has_value() : digits == part.size()))
        found = &s;
    if (!found || !may_follow(at.part(), found->part)) return {};
    at = at.child(found->part, found->is_numbered ? *number : -1);
    begin = end;
  }
  return at;
}

std::optional<LoopHandle> parse_loop(std::string_view text) {
  const Handle handle = parse_handle(text);
  if (!handle || is_buffer(handle.part())) return {};
  return LoopHandle(handle);
}

std::optional<BufferHandle> parse_buffer(std::string_view text) {
  const Handle handle = parse_handle(text);
  if (!handle || !is_buffer(handle.part())) return {};
  return BufferHandle(handle);
}

std::optional<StageHandle> parse_stage(std::string_view text) {
  const Handle handle = parse_handle(text);
  if (!handle || handle.part() != Part::Stage) return {};
  return StageHandle(handle.stage());
}

} // namespace lathe::search
