// Lambdas as one visitor, for std::visit without a default case.
#pragma once

namespace lathe {

template <class... F> struct Overload : F... { using F::operator()...; };
template <class... F> Overload(F...) -> Overload<F...>;

} // namespace lathe
