// Kernel and Query: one compiled kernel launched on memory bound by name.
#include <algorithm>
#include <fmt/format.h>

#include "compile/front/shape_values.hpp"
#include "compile/run/aliases.hpp"
#include "compile/run/finalise.hpp"
#include "compile/run/kernel_impl.hpp"
#include "compile/run/recurrence.hpp"
#include "lathe/error.hpp"

namespace lathe {

Query& Query::bind(const std::string& param, void* data, size_t bytes) {
  buffers_.push_back({param, data, bytes, true});
  return *this;
}
Query& Query::bind(const std::string& param, const void* data, size_t bytes) {
  buffers_.push_back({param, const_cast<void*>(data), bytes, false});
  return *this;
}
Query& Query::set(const std::string& shape_var, int64_t value) {
  shape_values_.emplace_back(shape_var, value);
  return *this;
}

const std::string& Kernel::name() const { return impl_->name; }
const std::string& Kernel::source() const { return impl_->source(); }
const std::vector<KernelParam>& Kernel::params() const { return impl_->params; }
const std::vector<Expr>& Kernel::shape_vars() const { return impl_->shape_vars; }
std::string Kernel::ast() const {
  std::string out = ast::print(impl_->plan->kernel);
  if (const auto* recurrence = pipeline::recurrence_of(*this))
    for (const Kernel& kernel : recurrence->body().kernels) out += "\n" + kernel.ast();
  return out;
}
double Kernel::predicted_seconds() const { return impl_->predicted_seconds; }
std::vector<std::string> Kernel::moves() const {
  std::vector<std::string> out;
  for (const search::Move& move : impl_->plan->moves) out.push_back(to_string(move));
  return out;
}

const std::string& Kernel::Impl::source() const {
  std::call_once(source_once_, [this] {
    if (const auto* recurrence = dynamic_cast<const pipeline::RecurrenceProgram*>(program.get())) {
      for (const Kernel& kernel : recurrence->body().kernels) source_ += kernel.source();
      return;
    }
    const InExprScope inside(expressions);
    const InExprScope text_only(new_expr_scope());
    source_ = device->source(pipeline::finalise(plan->kernel), flags);
  });
  return source_;
}

namespace {

std::string names_of(const std::vector<KernelParam>& params) {
  std::string out;
  for (const KernelParam& p : params) out += (out.empty() ? "" : ", ") + p.name;
  return out;
}

pipeline::ShapeValues shape_values_of(const Kernel::Impl& kernel, const Query& query,
                                      const std::string& where) {
  pipeline::ShapeValues values(kernel.shape_vars);
  for (size_t k = 0; k < query.shape_values().size(); ++k) {
    const auto& [name, value] = query.shape_values()[k];
    const auto var = std::find_if(kernel.shape_vars.begin(), kernel.shape_vars.end(),
                                  [&, &n = name](Expr v) { return v.name() == n; });
    if (var == kernel.shape_vars.end())
      throw Error(ErrorKind::Name,
                  fmt::format("{}: no shape variable {}, expected one of the kernel's", where, name));
    for (size_t j = 0; j < k; ++j)
      if (query.shape_values()[j].first == name)
        throw Error(ErrorKind::Name,
                    fmt::format("{}: shape variable {} is set twice, expected once", where, name));
    values.bind(*var, value, where);
  }
  values.complete(where);
  return values;
}

} // namespace

void Kernel::launch(const Query& query) const {
  const Impl& k = *impl_;
  const std::string where = "launch " + k.name;
  pipeline::ShapeValues values = shape_values_of(k, query, where);

  std::vector<const Query::Binding*> bound(k.params.size(), nullptr);
  for (const Query::Binding& b : query.buffers()) {
    const auto at = std::find_if(k.params.begin(), k.params.end(),
                                 [&](const KernelParam& p) { return p.name == b.name; });
    if (at == k.params.end())
      throw Error(ErrorKind::Name,
                  fmt::format("{}: no parameter {}, expected one of {}", where, b.name, names_of(k.params)));
    auto& slot = bound[static_cast<size_t>(at - k.params.begin())];
    if (slot)
      throw Error(ErrorKind::Name,
                  fmt::format("{}: parameter {} is bound twice, expected once", where, b.name));
    slot = &b;
  }
  std::vector<std::unique_ptr<runtime::DeviceBuffer>> buffers;
  std::vector<runtime::BufferSlice> slices;
  for (size_t p = 0; p < k.params.size(); ++p) {
    const KernelParam& param = k.params[p];
    const Query::Binding* b = bound[p];
    if (!b)
      throw Error(ErrorKind::Name, fmt::format("{}: parameter {} is not bound, expected all of {}", where,
                                               param.name, names_of(k.params)));
    if (param.written && !b->writable)
      throw Error(ErrorKind::Value,
                  fmt::format("{}: parameter {} is bound to const memory, expected memory to write to", where,
                              param.name));
    int64_t bytes = size_of(param.dtype);
    for (const Expr size : param.shape) bytes *= values.evaluate(size);
    if (b->bytes != static_cast<size_t>(bytes))
      throw Error(ErrorKind::Value,
                  fmt::format("{}: parameter {} is bound to {} bytes, expected {} for {}{}", where,
                              param.name, b->bytes, bytes, to_string(param.dtype), to_string(param.shape)));
    if (!b->data)
      throw Error(ErrorKind::Value,
                  fmt::format("{}: parameter {} is bound to null, expected memory", where, param.name));
    for (size_t other = 0; other < p; ++other)
      if ((param.written || k.params[other].written) &&
          pipeline::overlap(b->data, b->bytes, bound[other]->data, bound[other]->bytes))
        throw Error(ErrorKind::Value,
                    fmt::format("{}: the memory of parameter {} overlaps that of {}, expected "
                                "memory of its own where one of them is written",
                                where, param.name, k.params[other].name));
    buffers.push_back(k.device->is_host() ? k.device->wrap(b->data, b->bytes) : k.device->allocate(b->bytes));
    if (!k.device->is_host()) buffers.back()->upload(0, b->data, b->bytes);
    slices.push_back({buffers.back().get(), 0, b->bytes});
  }
  k.program->launch(slices, values.complete(where));
  if (k.device->is_host()) return;
  k.device->finish();
  for (size_t p = 0; p < k.params.size(); ++p)
    if (k.params[p].written) buffers[p]->download(0, bound[p]->data, bound[p]->bytes);
}

} // namespace lathe
