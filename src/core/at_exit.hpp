// What lathe still does when the process exits. Destructors of its globals do not run then, and std::atexit does
// nothing in its shared objects: see src/shared.
#pragma once
#include <cstdlib>

namespace lathe {

/// Calls `function` when the process exits, before the functions that were registered earlier. A child of a fork
/// inherits it.
template <void (*function)()> void at_exit() {
  ::on_exit([](int, void*) { function(); }, nullptr);
}

} // namespace lathe
