#include "onnx/program/make_way.hpp"

#include <algorithm>
#include <utility>

#include "onnx/program/inputs.hpp"
#include "onnx/program/segment_maker.hpp"

namespace lathe::onnx {
namespace {

/// Makes a tree of one segment of these inputs, and lets calls take it.
void make_root(Program::Impl& program, const std::string& key, const std::vector<Value>& inputs) {
  auto root = std::make_unique<Segment>();
  Openings none;
  make_segments(program, *root, nullptr, inputs, none);
  const std::lock_guard lock(program.mutex);
  program.roots[key] = std::move(root);
}

/// Makes the tree for all sizes, in the widest bounds of sizes in which it can be made. `typical`: as
/// declared_inputs.
void make_root_for_all_sizes(Program::Impl& program, const Sizes* typical) {
  in_widest_bounds(program.largest_size, [&](int64_t largest) {
    {
      const std::lock_guard lock(program.mutex);
      program.largest_size = largest;
    }
    Declared declared = declared_for_all_sizes(program);
    declared.typical = typical;
    make_root(program, "", declared_inputs(*program.model, program.options, declared));
  });
}

/// What a way's tree is traced with. `typical`: sizes that the model names.
std::vector<Value> inputs_of(const Program::Impl& program, const Way& way, const std::vector<Value>& fed,
                             const Sizes& typical) {
  if (way.made_for == Way::For::Shapes) return inputs_like(fed);
  ImportOptions options = program.options;
  options.sizes.insert(way.sizes.begin(), way.sizes.end());
  Declared declared = declared_for_all_sizes(program);
  declared.typical = &typical;
  return declared_inputs(*program.model, options, declared);
}

/// Of a way whose tree can't be made: the next wider one, from now on.
Way wider_way(Program::Impl& program, const Way& way, const std::vector<Value>& fed) {
  const std::lock_guard changes(program.mutex);
  switch (way.made_for) {
  case Way::For::Sizes: program.roots.erase(way.key); return {Way::For::AllSizes, ""};
  case Way::For::EmptySizes: program.without_tree.insert(way.key); break;
  case Way::For::AllSizes: program.symbolic = false; break;
  case Way::For::Shapes: break;
  }
  return way_of_shapes(fed);
}

/// Makes what is missing of the way behind this root, and runs it all.
const Segment& make_rest(Program::Impl& program, Segment& root, const std::vector<Value>& inputs,
                         Store& store) {
  const Sizes at_start = store.sizes;
  Openings openings;
  const auto end = [&](bool failed) {
    const std::lock_guard links(program.mutex);
    settle(openings, failed);
  };
  const auto without_last = [&] {
    if (openings.taken.empty()) return false;
    openings.avoided.insert(openings.taken.back());
    store.sizes = at_start;
    return true;
  };
  try {
    for (;;) {
      try {
        const Segment& last = make_segments(program, root, &store, inputs, openings);
        end(false);
        return last;
      } catch (const Error&) {
        if (!without_last()) throw;
      } catch (const InternalError&) {
        if (!without_last()) throw;
      }
    }
  } catch (...) {
    end(true);
    throw;
  }
}

/// The first segment of a way, made or not. `sizes`: of the call.
Segment& root_of(Program::Impl& program, const Way& way, const Sizes& sizes) {
  const std::lock_guard links(program.mutex);
  auto& place = program.roots[way.key];
  if (!place) place = std::make_unique<Segment>();
  if (place->made) return *place;
  if (program.is_body) place->looks_at_sizes = place->made = true;
  place->made_at = sizes;
  for (const auto& [key, root] : program.roots)
    if (root->completed && way.made_for == Way::For::AllSizes) place->example = {root.get(), root->made_at};
  return *place;
}

/// Lowers the bound of sizes for the tree for all sizes, whose buffers it does not fit. False where this tree
/// is there, no lower bound is left, or it would not hold for the call.
bool lower_bound_of(Program::Impl& program, const Way& way, const std::vector<Value>& fed) {
  const std::lock_guard changes(program.mutex);
  const auto root = program.roots.find(way.key);
  if (root != program.roots.end() && root->second->made) return false;
  const auto lower = std::find_if(std::begin(kSizeBounds), std::end(kSizeBounds),
                                  [&](int64_t bound) { return bound < program.largest_size; });
  if (lower == std::end(kSizeBounds)) return false;
  program.largest_size = *lower;
  return in_bounds(program, fed);
}

} // namespace

const Segment* made_root(const Program::Impl& program, const Way& way) {
  const std::lock_guard lock(program.mutex);
  const auto found = program.roots.find(way.key);
  return found != program.roots.end() && found->second->made ? found->second.get() : nullptr;
}

void make_way(Program::Impl& program, Way& way, const std::vector<Value>& fed, const Sizes& sizes) {
  const std::lock_guard lock(program.making);
  if (made_root(program, way)) return; // by another thread
  try {
    if (way.made_for != Way::For::AllSizes) {
      make_root(program, way.key, inputs_of(program, way, fed, sizes));
    } else {
      make_root_for_all_sizes(program, &sizes);
      const std::lock_guard lock(program.mutex);
      if (!in_bounds(program, fed)) way = way_of_shapes(fed); // the bounds may have changed
    }
  } catch (const Error&) {
    way = wider_way(program, way, fed);
  }
}

void make_for_all_sizes(Program::Impl& program) {
  const std::lock_guard lock(program.making);
  if (program.symbolic && !program.looks && !made_root(program, {Way::For::AllSizes, ""}))
    make_root_for_all_sizes(program, nullptr);
}

const Segment& make_rest_of(Program::Impl& program, Way& way, const std::vector<Value>& fed, Store& store) {
  const Sizes at_start = store.sizes;
  const auto make = [&]() -> const Segment& {
    store.sizes = at_start;
    Segment& root = root_of(program, way, at_start);
    return make_rest(program, root, inputs_of(program, way, fed, root.made_at), store);
  };
  if (way.made_for == Way::For::Sizes || way.made_for == Way::For::Shapes) return make();
  try {
    return make();
  } catch (const Error& error) {
    const bool bounds = way.made_for == Way::For::AllSizes && error.kind() == ErrorKind::Limit;
    if (bounds && lower_bound_of(program, way, fed)) {
      store.sizes = at_start;
      return make_rest_of(program, way, fed, store);
    }
  } catch (const InternalError&) {
  }
  const Way failed = std::exchange(way, way_of_shapes(fed));
  const Segment& last = make();
  constexpr int kMostFailures = 3; // the calls may have been odd ones
  if (++program.failures >= kMostFailures) (void)wider_way(program, failed, fed);
  return last;
}

} // namespace lathe::onnx
