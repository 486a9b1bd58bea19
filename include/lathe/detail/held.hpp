// What stands behind a public object. Copies of the object share it. An object that was moved from has none: it may be
// assigned to and destroyed, and all else is Error(Value).
#pragma once
#include <memory>
#include <utility>

namespace lathe::detail {

enum class Holder { Tensor, Kernel, Executable, Model, Program };
[[noreturn]] void refuse_moved_from(Holder holder);

template <class Impl, Holder holder> class Held {
 public:
  explicit Held(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  const std::shared_ptr<Impl>& shared() const {
    if (!impl_) refuse_moved_from(holder);
    return impl_;
  }
  operator const std::shared_ptr<Impl>&() const { return shared(); }
  Impl* operator->() const { return shared().get(); }
  Impl& operator*() const { return *shared(); }

 private:
  std::shared_ptr<Impl> impl_;
};

} // namespace lathe::detail
