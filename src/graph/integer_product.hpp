// Sums of products of quantised numbers, as sums of products of their 8-bit integers.
//
// A quantised number is (q - z) * s: an integer q of 8 bits, a zero point z and a scale s. With z and s the
// same for all terms of a sum,
//
//   sum (qa - za) sa (qb - zb) sb  =  sa sb (sum qa qb  -  zb sum qa  -  za sum qb  +  K za zb)
//
// for K terms. The first sum is in the one form that instructions for products of 8 bits compute. That of a
// constant operand is computed once, when the program is compiled.
#pragma once
#include "graph/node.hpp"

namespace lathe::graph {

/// The form above of a Reduce that adds up such products; null for other nodes, and for one that is the plain
/// sum sum over k of Cast<i32>(qa) * Cast<i32>(qb) already.
///
/// A constant operand of u8 becomes one of i8, less 128, as its zero point does: most instructions take only
/// one operand of u8. Padding of an operand is padding of its integers with the zero point. Sums in i32 keep
/// every bit, as both forms wrap. Sums in f32 and f64 are rewritten if the integers' sum fits i32: it is
/// exact then, and rounded once.
NodeRef integer_product(const NodeRef& sum);

} // namespace lathe::graph
