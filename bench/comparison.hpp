// What a comparison with the peers says: for each row the best peer, and for each group of rows geometric
// means.
#pragma once
#include "report.hpp"

namespace lathe::bench {

/// The fastest peer of the row; null if it has none.
const PeerTime* best_peer(const Row& row);

struct Mean {
  std::string peer;
  double ratio; ///< geometric mean of the peer's time divided by lathe's: above 1 lathe is faster
  size_t rows;  ///< those that the peer has
};
struct Summary {
  std::string group;
  Mean best;        ///< of the fastest peer of each row
  const Row* worst; ///< against its fastest peer; null if no row has a peer
  std::vector<Mean> peers;
};
/// In the order of the rows, which outlive them.
std::vector<Summary> summarise(const std::vector<Row>& rows);

/// A table for each group, then the summaries.
std::string comparison_text(const std::vector<Row>& rows);
Json comparison_json(const std::vector<Row>& rows);

} // namespace lathe::bench
