// How lathe's own libraries reach what stands behind the public classes. Not for users: it may change in any
// version.
#pragma once
#include <memory>
#include <utility>

namespace lathe::detail {

struct Access {
  template <class Public> static const auto& impl(const Public& object) { return object.impl_; }
  template <class Public, class Impl> static Public make(std::shared_ptr<Impl> impl) {
    return Public(std::move(impl));
  }
};

/// Of a Tensor, Kernel, Executable, onnx::Model or onnx::Program.
template <class Public> const auto& impl(const Public& object) { return Access::impl(object); }

} // namespace lathe::detail
