// The order of rows of a matrix, and which of them are equal.
#include <algorithm>
#include <numeric>

#include "onnx/strings/host_op.hpp"
#include "onnx/tracer.hpp"

namespace lathe::onnx {
namespace {

/// Whether a goes before b. NaN equals NaN and is the largest number.
template <class T> bool goes_before(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>) return a < b || (b != b && a == a);
  return a < b;
}

/// Rows of equally many elements; one goes before another as words in a dictionary do.
template <class T> struct Rows {
  std::vector<T> elements;
  size_t columns;

  bool less(int64_t a, int64_t b) const {
    const T* left = elements.data() + static_cast<size_t>(a) * columns;
    const T* right = elements.data() + static_cast<size_t>(b) * columns;
    return std::lexicographical_compare(left, left + columns, right, right + columns, goes_before<T>);
  }
};

/// Groups of equal rows.
struct Groups {
  std::vector<int64_t> first; // the first row of each
  std::vector<int64_t> of;    // the group of each row
  std::vector<int64_t> size;
};

template <class T> Groups groups_in_order(const Rows<T>& rows, size_t count) {
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return rows.less(a, b); });
  Groups groups{{}, std::vector<int64_t>(count), {}};
  for (size_t k = 0; k < count; ++k) {
    if (k == 0 || rows.less(order[k - 1], order[k])) {
      groups.first.push_back(order[k]);
      groups.size.push_back(0);
    }
    groups.of[static_cast<size_t>(order[k])] = static_cast<int64_t>(groups.first.size()) - 1;
    ++groups.size.back();
  }
  return groups;
}

/// The same groups in the order in which their first rows come.
Groups by_appearance(const Groups& sorted) {
  Groups groups{{}, sorted.of, {}};
  std::vector<int64_t> number(sorted.first.size(), -1);
  for (size_t row = 0; row < sorted.of.size(); ++row) {
    const auto group = static_cast<size_t>(sorted.of[row]);
    if (number[group] < 0) {
      number[group] = static_cast<int64_t>(groups.first.size());
      groups.first.push_back(sorted.first[group]);
      groups.size.push_back(sorted.size[group]);
    }
    groups.of[row] = number[group];
  }
  return groups;
}

template <class T, class Read>
Groups groups_of_numbers(const Tensor& matrix, size_t count, size_t columns, Read&& read) {
  Rows<T> rows{{}, columns};
  for (const Scalar& number : host_elements(matrix)) rows.elements.push_back(read(number));
  return groups_in_order(rows, count);
}

Groups groups_of(const Value& matrix, size_t count, size_t columns) {
  if (matrix.is_strings()) return groups_in_order(Rows<std::string>{matrix.texts(), columns}, count);
  const Tensor& numbers = matrix.tensor();
  if (is_float(numbers.dtype()))
    return groups_of_numbers<double>(numbers, count, columns,
                                     [](const Scalar& number) { return number.as_float(); });
  if (numbers.dtype() == DType::U64)
    return groups_of_numbers<uint64_t>(
        numbers, count, columns, [](const Scalar& number) { return static_cast<uint64_t>(number.as_int()); });
  return groups_of_numbers<int64_t>(numbers, count, columns,
                                    [](const Scalar& number) { return number.as_int(); });
}

} // namespace

std::vector<Value> host_distinct(const HostOp& op, const HostInputs& inputs) {
  const Value& matrix = inputs.at(0);
  if (matrix.rank() != 2 || matrix.shape()[0].is_const(0))
    throw Error(ErrorKind::Shape, op.name + " of " + type_text(matrix) + ", expected a matrix with rows");
  const auto count = static_cast<size_t>(matrix.shape()[0].value());
  const auto columns = static_cast<size_t>(matrix.shape()[1].value());
  Groups groups = groups_of(matrix, count, columns);
  if (op.integers.at(0) == 0) groups = by_appearance(groups);
  return {Tensor::from(groups.first), Tensor::from(groups.of), Tensor::from(groups.size)};
}

} // namespace lathe::onnx
