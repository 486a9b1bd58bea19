// Objects that a thread keeps and uses again. A destructor of a user's global may run lathe after the
// thread's own objects have been destroyed; the thread then gets a new object.
#pragma once
#include <utility>

namespace lathe {

/// The calling thread's T. `Use` tells apart several objects of one type.
template <class T, class Use> T& per_thread() {
  thread_local constinit T* object = nullptr;
  if (!object) {
    struct Owner {
      T** place;
      ~Owner() { delete std::exchange(*place, nullptr); }
    };
    thread_local Owner owner{&object};
    object = new T;
  }
  return *object;
}

} // namespace lathe
