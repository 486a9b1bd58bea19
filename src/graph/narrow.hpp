// Tensors of narrow dtypes. No node of the graph has such a dtype: what is computed with are the elements'
// codes, one U8 an element, and what stands in memory are bytes of packed codes. Casts are composed of
// integer ops on the codes, so that no floor below knows of these dtypes: docs/decisions/narrow-dtypes.md.
#pragma once
#include <functional>

#include "graph/tensor_impl.hpp"

namespace lathe::graph {

/// The shape of the bytes in memory: the last axis is divided where it is a number of whole bytes, else there
/// is one axis.
Shape packed_shape(DType narrow, const Shape& shape);
Tensor packed(DType narrow, const Tensor& codes);
Tensor unpacked(DType narrow, const Tensor& bytes, const Shape& shape);

/// The codes of a tensor of a narrow dtype, one U8 an element, and back.
Tensor codes_of(const Tensor& narrow);
Tensor of_codes(DType narrow, const Tensor& codes);
/// `f` of the codes of x if its dtype is narrow, else of x: for what moves elements without looking at them.
Tensor on_codes(const Tensor& x, const std::function<Tensor(const Tensor&)>& f);

/// The node of the elements as they stand in memory, of any dtype, and what it stands for; and back.
NodeRef held_node(const Tensor& t);
std::optional<Declared> declared_of(const Tensor& t);
Tensor of_held(NodeRef node, const std::optional<Declared>& declared);
/// The tensor whose elements stand in `data` as in memory.
Tensor of_data(StorageRef data, DType dtype, const Shape& shape);

/// The dtype in which a narrow one is read and compared: I8 or U8 of integers, F32 of floats. It holds all
/// values.
DType read_as(DType narrow);
/// A cast of which one dtype or both are narrow.
Tensor narrow_cast(const Tensor& x, DType to, NarrowCast how);

} // namespace lathe::graph
