#include "search/cost/traffic.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/per_thread.hpp"
#include "search/cost/constants.hpp"
#include "search/cost/cost.hpp"
#include "search/machine/machine_limits.hpp"

namespace lathe::search {
namespace {

/// What one access touches while some loops run.
struct Footprint {
  double bytes = 0;     // in whole lines
  double run = 0;       // contiguous bytes that are touched one after the other
  double apart = 0;     // bytes from the beginning of one such run to that of the next
  bool columns = false; // lines come back for what is next in them, after others
  double overflow = 0;  // share of lines that is lost to others of the same sets
};

/// A kernel's accesses against one cache. Reused between kernels.
class Model {
public:
  void run(const Features& f, const CacheShape& cache, std::vector<Traffic>& out) {
    f_ = &f;
    cache_ = cache;
    out.assign(f.accesses.size(), {});
    out_ = &out;
    best_.assign(f.buffers.size(), {});
    find_shares();
    find_executed();
    compute_footprints();
    times_.assign(f.buffers.size(), 0);
    find_lost(0, static_cast<int>(f.accesses.size()), 0);
    const std::vector<double> lost = lost_;
    for (int l = 0; l < static_cast<int>(f.loops.size()); l = f.loops[l].end) {
      for (size_t b = 0; b < lost.size(); ++b) times_[b] = users_of(l) * (1 - lost[b]);
      add_what_never_stays(l);
      for (size_t b = 0; b < lost.size(); ++b) times_[b] = users_of(l) * lost[b];
      add_traffic(l);
    }
  }

private:
  struct Merged {
    double bytes = 0, run = 0, apart = 0, overflow = 0;
    bool columns = false;
    double reads = 0, writes = 0; // how often, 1 at most: less where all stand under conditions
    int reader = -1, writer = -1; // accesses
    bool ahead = false;
    bool read = false, written = false, streamed = false, prefetched = false, constant = false;
    bool given = false; // made before the nest
    uint32_t stamp = 0;
  };

  /// How many threads share the iterations of each loop. What follows is of one of them.
  void find_shares() {
    shares_.assign(f_->loops.size(), 1);
    for (size_t l = 0; l < f_->loops.size(); ++l) {
      const auto kind = f_->loops[l].loop->kind;
      if (kind != ast::LoopKind::Parallel && kind != ast::LoopKind::Group) continue;
      double above = 1;
      for (int outer = f_->loops[l].parent; outer >= 0; outer = f_->loops[outer].parent)
        above *= share(outer);
      shares_[l] = std::clamp(cache_.threads / above, 1.0, std::max(1.0, f_->loops[l].extent));
    }
  }
  /// Of each access, how often the conditions hold that it stands under.
  void find_executed() {
    executed_.assign(f_->accesses.size(), 1);
    for (size_t a = 0; a < executed_.size(); ++a)
      for (int l = f_->accesses[a].loop; l >= 0; l = f_->loops[l].parent)
        if (f_->loops[l].is_condition) executed_[a] *= f_->loops[l].extent;
  }
  double share(int loop) const { return shares_[static_cast<size_t>(loop)]; }
  /// Of a loop that takes so many steps on average. What a few outer iterations cut off is not lost to all.
  double longest(int loop, double average) const {
    const LoopInfo& l = f_->loops[loop];
    const auto most = static_cast<double>(l.loop->extent.hi());
    return l.tail > 0 && average == l.extent && most < 2 * l.extent ? most : std::ceil(average);
  }
  double extent(int loop) const { return f_->loops[loop].extent / share(loop); }
  /// Of a nest.
  double users_of(int nest) const {
    double most = 1;
    for (int l = nest; l < f_->loops[nest].end; ++l) most = std::max(most, share(l));
    return most;
  }

  // The footprint of access a over the loops of depth >= d is footprints_[first_[a] + d].
  const Footprint& footprint(int access, int depth) const {
    const AccessInfo& a = f_->accesses[access];
    const int inner = a.loop < 0 ? 0 : f_->loops[a.loop].depth + 1;
    return footprints_[first_[access] + std::min(depth, inner)];
  }

  /// Accesses of one body that walk alike through a buffer, such as the points of a transform, are one that
  /// begins at several places.
  void find_places() {
    const int count = static_cast<int>(f_->accesses.size());
    places_.clear();
    leaders_.resize(static_cast<size_t>(count));
    last_.assign(2 * f_->buffers.size(), -1);
    for (int a = 0; a < count; ++a) {
      const AccessInfo& access = f_->accesses[a];
      int& last = last_[2 * static_cast<size_t>(access.buffer) + access.store];
      if (last < 0 || !walk_alike(f_->accesses[last], access)) last = a;
      leaders_[a] = last;
      places_.emplace_back(last, access.offset);
    }
    std::sort(places_.begin(), places_.end());
  }
  bool walk_alike(const AccessInfo& a, const AccessInfo& b) const {
    if (a.loop != b.loop || a.random || b.random || a.streaming != b.streaming || a.combine != b.combine ||
        a.ahead != b.ahead)
      return false;
    const auto strides = f_->strides.begin();
    const auto loops = a.loop < 0 ? 0 : f_->loops[a.loop].depth + 1;
    return std::equal(strides + a.strides, strides + a.strides + loops, strides + b.strides);
  }
  /// Its places that share nothing with the one before: no number of steps comes from there to within a run
  /// of `run` elements. Some of them are where that run ends.
  struct Places {
    double distinct = 1, adjoining = 0;
  };
  Places places_of(int access, double run) const {
    auto at = std::lower_bound(places_.begin(), places_.end(), std::pair(access, -1e300));
    Places places;
    for (auto next = at + 1; next != places_.end() && next->first == access; ++at, ++next) {
      double apart = next->second - at->second;
      for (auto s = inner_.rbegin(); s != inner_.rend(); ++s)
        if (const double steps = std::floor(apart / s->stride); steps < s->extent) apart -= steps * s->stride;
      places.distinct += apart >= run;
      places.adjoining += apart == run;
    }
    return places;
  }

  /// Of steps_, those of loops of depth >= d. A loop and what it was split from are one again: of chunks, the
  /// average extent does not say how far the last one goes.
  void find_inner_steps(int depth) {
    inner_.clear();
    double adjoins = 0;
    for (const Step& s : steps_) {
      if (s.depth < depth || s.extent <= 1) continue;
      if (s.stride == adjoins) {
        inner_.back().extent *= s.extent;
        inner_.back().longest *= s.longest;
      } else {
        inner_.push_back(s);
      }
      adjoins = s.stride * s.longest;
    }
  }

  void compute_footprints() {
    footprints_.clear();
    first_.clear();
    find_places();
    for (int access = 0; access < static_cast<int>(f_->accesses.size()); ++access) {
      const AccessInfo& a = f_->accesses[access];
      first_.push_back(footprints_.size());
      const int depth = a.loop < 0 ? 0 : f_->loops[a.loop].depth + 1;
      if (leaders_[access] != access) {
        footprints_.resize(footprints_.size() + static_cast<size_t>(depth) + 1);
        continue;
      }
      // The enclosing loops by ascending stride.
      steps_.clear();
      for (int l = a.loop; l >= 0; l = f_->loops[l].parent) {
        f_->each_step(a, l, extent(l), [&](double stride, double times) {
          if (stride != 0 || a.random)
            steps_.push_back({std::abs(stride), times, f_->loops[l].depth, longest(l, times)});
        });
      }
      std::sort(steps_.begin(), steps_.end(),
                [](const Step& x, const Step& y) { return x.stride < y.stride; });
      for (int d = 0; d <= depth; ++d) footprints_.push_back(over_loops_from(access, d));
    }
  }

  Footprint over_loops_from(int access, int depth) {
    const AccessInfo& a = f_->accesses[access];
    const BufferInfo& buffer = f_->buffers[a.buffer];
    Footprint out;
    if (buffer.buffer->scope == ast::Scope::Register) return out;
    const double element = buffer.element_bytes, whole = buffer.elements * element;
    if (a.random) {
      double count = 1, run = 1; // rows, and the elements of one
      for (const Step& s : steps_) {
        if (s.depth < depth) continue;
        if (s.stride > 0 && s.stride <= run)
          run += s.stride * (std::max(1.0, s.extent) - 1);
        else
          count *= std::max(1.0, s.extent);
      }
      const double lines = std::ceil(run * element / cache_.line);
      out.bytes = std::min(std::ceil(whole / cache_.line), count * lines) * cache_.line;
      out.run = run * element;
      return out;
    }
    find_inner_steps(depth);
    double run = element, rows = 1, covered_sets = 1;
    double apart = cache_.sets;   // lines, a power of two: all rows begin at its multiples
    double reach = element;       // as `run`, if loops that are shorter now and then never were
    double stride = 0, count = 1; // of the level being merged
    const auto close_level = [&] {
      if (count <= 1) return;
      rows *= count;
      if (cache_.sets > 0) {
        const double lines = std::max(1.0, std::floor(stride / cache_.line));
        const double shared =
            std::bit_floor(static_cast<uint64_t>(lines) & (~static_cast<uint64_t>(lines) + 1));
        covered_sets *= std::min(count, std::max(1.0, cache_.sets / shared));
        apart = std::min(apart, shared);
      }
    };
    for (const Step& s : inner_) {
      const double step = s.stride * element;
      if (count <= 1 && step <= std::max(reach, cache_.line)) {
        run += step * (s.extent - 1);
        reach += step * (s.longest - 1);
      } else if (count > 1 && step < stride * count) {
        count += step / stride * (s.extent - 1);
      } else {
        close_level();
        stride = step;
        count = s.extent;
      }
    }
    close_level();
    covered_sets = std::min(covered_sets, std::max(1.0, cache_.sets / std::max(1.0, apart)));
    const double lines_a_row = std::max(1.0, std::ceil(run / cache_.line - 1e-9));
    const auto [places, adjoining] = places_of(access, std::max(run, cache_.line) / element);
    const double lines = std::min(places * rows * lines_a_row, std::ceil(whole / cache_.line));
    out.bytes = lines * cache_.line;
    find_run(a, depth, out);
    out.run *= places / (places - adjoining);
    if (cache_.sets > 0) {
      const double held = std::min(cache_.sets, places * covered_sets * lines_a_row) * cache_.ways;
      out.overflow = std::clamp((cache_.nearest ? cost_constants.displaced_near : cost_constants.displaced) *
                                    (1 - held / lines),
                                0.0, 1.0);
    }
    return out;
  }

  /// A run, from the innermost loop outwards, as far as what comes next adjoins; a few of them may take
  /// turns. And the way to the next one.
  void find_run(const AccessInfo& a, int depth, Footprint& out) const {
    const double element = f_->buffers[a.buffer].element_bytes;
    double run = element, reach = element, streams = 1, apart = 0;
    for (int l = a.loop; l >= 0 && f_->loops[l].depth >= depth; l = f_->loops[l].parent) {
      f_->each_step(a, l, extent(l), [&](double stride, double trips) {
        const double step = std::abs(stride) * element;
        if (step == 0 || trips <= 1) return;
        if (step > std::max(reach, cache_.line)) {
          if (apart == 0) apart = step;
          streams *= trips;
          return;
        }
        out.columns |= streams > 1 && reach < cache_.line && step < cache_.line;
        if (streams <= (cache_.nearest ? cost_constants.near_streams : cost_constants.streams)) {
          run += step * (trips - 1);
          reach += step * (std::ceil(trips) - 1);
        }
      });
    }
    out.run = run;
    out.apart = apart;
  }

  /// The union of accesses [first, end) over the loops of depth >= d: the same buffer counts once.
  template <class F> void merge(int first, int end, int depth, F&& each) {
    ++stamp_;
    touched_.clear();
    for (int a = first; a < end; ++a) {
      const AccessInfo& access = f_->accesses[a];
      const Footprint& fp = footprint(a, depth);
      if (fp.bytes == 0) continue;
      Merged& m = best_[access.buffer];
      if (m.stamp != stamp_) {
        m = {};
        m.prefetched = f_->buffers[access.buffer].is_prefetched();
        m.constant = f_->buffers[access.buffer].constant;
        m.stamp = stamp_;
        touched_.push_back(access.buffer);
      }
      if (fp.bytes > m.bytes) {
        m.bytes = fp.bytes;
        m.run = fp.run;
        m.apart = fp.apart;
        m.columns = fp.columns;
      }
      if (!access.streaming) m.overflow = std::max(m.overflow, fp.overflow);
      if (!access.store || access.combine) {
        m.given |= !m.written && f_->buffers[access.buffer].buffer->scope == ast::Scope::Global;
        if (m.reader < 0 || (!m.ahead && access.ahead != 0)) m.reader = a;
        m.ahead |= access.ahead != 0;
        m.reads = std::min(1.0, m.reads + executed_[static_cast<size_t>(a)]);
        m.read = true;
      }
      if (access.store) {
        if (m.writer < 0) m.writer = a;
        m.writes = std::min(1.0, m.writes + executed_[static_cast<size_t>(a)]);
        m.written = true;
      }
      m.streamed |= access.store && access.streaming;
    }
    for (int b : touched_) each(best_[b]);
  }

  /// lost_: of each buffer that accesses [first, end) touch over the loops of depth >= d, the share that
  /// leaves the cache before it is used again. What all of them touch may be too much for it; and one that
  /// walks in steps of a power of two, say, loses its own lines to each other, and next to nothing of the
  /// others.
  void find_lost(int first, int end, int depth) {
    double total = 0;
    merge(first, end, depth, [&](const Merged& m) {
      if (!m.streamed || m.read) total += m.bytes;
      // What is asked for a tile ahead lies beside what is worked on.
      if (m.prefetched && m.read && !cache_.nearest) total += std::min(m.bytes, tile_asked_for(m.reader));
    });
    const double lost = lost_of(total);
    lost_.resize(best_.size());
    for (const int b : touched_) lost_[b] = std::max(lost, best_[b].overflow);
  }

  /// The share of so many bytes that does not stay until all are used again.
  double lost_of(double bytes) const {
    const double too_large = bytes / (cost_constants.usable * cache_.bytes) - 1;
    return cache_.all_lost > 1 ? std::clamp(too_large / (cache_.all_lost - 1), 0.0, 1.0) : too_large > 0;
  }

  /// Bytes of the tile that hints ask for while the access reads the one before.
  double tile_asked_for(int access) const {
    const int ahead = f_->loop_ahead(f_->accesses[access]);
    return footprint(access, ahead < 0 ? 0 : f_->loops[ahead].depth + 1).bytes;
  }

  void add_footprint(int first, int end, int depth) {
    merge(first, end, depth, [&](const Merged& m) {
      const double bytes = m.bytes * times_of(m);
      if (bytes == 0) return;
      if (m.written) {
        Traffic& t = (*out_)[m.writer];
        if (m.streamed)
          t.streamed += m.writes * streamed(m, bytes);
        else
          t.written += m.writes * bytes;
        t.stray += m.writes * stray(m, bytes);
      }
      // Of stores: where parts of lines are written, the rest has to come first; nothing waits for whole
      // lines.
      if (m.read)
        add_read(m, m.reads * bytes);
      else if (!m.streamed && (m.columns || m.run < cost_constants.part_of_line))
        add_scattered(m, bytes, (*out_)[m.writer]);
      else
        (*out_)[m.writer].by_pages += scattered(m, bytes) * by_pages(m);
    });
  }
  void add_read(const Merged& m, double bytes) {
    (*out_)[m.reader].read += bytes;
    add_scattered(m, bytes, (*out_)[m.reader]);
  }
  void add_scattered(const Merged& m, double bytes, Traffic& t) const {
    const double part = scattered(m, bytes);
    t.scattered += part;
    t.by_pages += part * by_pages(m);
    if (m.columns) t.by_columns += part;
  }
  double scattered(const Merged& m, double bytes) const {
    const double enough = cache_.line > kCacheLine ? cost_constants.page_run : cost_constants.prefetched_run;
    return m.run < enough && (cache_.nearest || !m.prefetched) ? bytes * (1 - m.run / enough) : 0;
  }

  /// As many lines fall into one set in turn as of runs of one line each, this share of them a page apart.
  static double by_pages(const Merged& m) {
    const auto apart = static_cast<uint64_t>(std::min(m.apart, 1e18));
    const double aligned = static_cast<double>(apart & (~apart + 1));
    return std::min(1.0, aligned / kPage) / std::max(1.0, m.run / kCacheLine);
  }

  /// Bytes of whole lines that take as long to store past the caches.
  double streamed(const Merged& m, double bytes) const {
    const double run = f_->run_in_order(f_->accesses[static_cast<size_t>(m.writer)]);
    return run < kCacheLine ? bytes / run * cost_constants.part_streamed : bytes;
  }
  static double stray(const Merged& m, double bytes) {
    if (m.apart > 0 && m.apart <= cost_constants.foreseen_step) return 0;
    return m.streamed || m.read ? 0 : bytes * std::max(0.0, 1 - m.run / cost_constants.stray_run);
  }

  void add_traffic(int loop) {
    const LoopInfo& l = f_->loops[loop];
    if (l.first_access == l.end_access) return;
    if (loop + 1 == l.end) return add_footprint(l.first_access, l.end_access, l.depth);
    // What one iteration leaves in the cache is there for the next.
    const size_t base = around_.size();
    find_lost(l.first_access, l.end_access, l.depth);
    for (const int b : touched_) around_.push_back({b, times_[b], lost_[b]});
    find_lost(l.first_access, l.end_access, l.depth + 1);
    double most = 0;
    for (size_t i = base; i < around_.size(); ++i) {
      Around& at = around_[i];
      at.lost = std::min(at.lost, lost_[at.buffer]);
      times_[at.buffer] = at.times * (1 - at.lost);
      most = std::max(most, at.times * at.lost);
    }
    add_footprint(l.first_access, l.end_access, l.depth);
    if (most > 0) {
      for (size_t i = base; i < around_.size(); ++i)
        times_[around_[i].buffer] = around_[i].times * around_[i].lost * std::max(1.0, extent(loop));
      int access = l.first_access;
      for (int child = loop + 1; child < l.end; child = f_->loops[child].end) {
        if (access < f_->loops[child].first_access)
          add_footprint(access, f_->loops[child].first_access, l.depth + 1);
        add_traffic(child);
        access = f_->loops[child].end_access;
      }
      if (access < l.end_access) add_footprint(access, l.end_access, l.depth + 1);
    }
    for (size_t i = base; i < around_.size(); ++i) times_[around_[i].buffer] = around_[i].times;
    around_.resize(base);
  }

  // Streaming stores leave the caches even when everything would fit, constants and the places of results are
  // replaced by those of other kernels, and values may have been made by another thread.
  void add_what_never_stays(int loop) {
    const LoopInfo& l = f_->loops[loop];
    merge(l.first_access, l.end_access, l.depth, [&](const Merged& m) {
      const double times = times_of(m);
      const double lost = m.constant ? cache_.loses_constants : m.given ? cache_.loses_values : 0;
      if (m.read && lost > 0) add_read(m, m.bytes * times * lost);
      if (m.writer < 0) return;
      Traffic& t = (*out_)[m.writer];
      const bool is_result = f_->buffers[f_->accesses[m.writer].buffer].buffer->scope == ast::Scope::Global;
      if (is_result && !m.read && !m.streamed) {
        const double lost_places = m.bytes * times * cache_.loses_places;
        t.written += lost_places;
        t.stray += stray(m, lost_places);
      }
      if (!m.streamed) return;
      t.streamed += streamed(m, m.bytes * times);
      t.read += m.bytes * times * (1 - lost_of(m.bytes)); // whoever reads it next has to fetch it
    });
  }

  double times_of(const Merged& m) const {
    return times_[f_->accesses[static_cast<size_t>(std::max(m.reader, m.writer))].buffer];
  }

  struct Step {
    double stride, extent;
    int depth;
    double longest; // extent, where the loop is not shortened
  };
  /// What held for a buffer around a loop, and what is lost of it from one iteration to the next.
  struct Around {
    int buffer;
    double times, lost;
  };

  const Features* f_ = nullptr;
  CacheShape cache_{};
  std::vector<Traffic>* out_ = nullptr;
  std::vector<Footprint> footprints_;
  std::vector<size_t> first_;
  std::vector<double> shares_;   // by loop
  std::vector<double> executed_; // by access
  std::vector<Step> steps_, inner_;
  std::vector<int> leaders_, last_;            // by access; by buffer, of its loads and its stores
  std::vector<std::pair<int, double>> places_; // leaders with the offsets of those that walk alike
  std::vector<Merged> best_;
  std::vector<int> touched_;
  std::vector<double> times_, lost_; // by buffer: how often what is added next runs; see find_lost()
  std::vector<Around> around_;       // of the loops that are open
  uint32_t stamp_ = 0;
};

} // namespace

CacheShape cache_shape(int64_t bytes, bool conflicts) {
  CacheShape c{static_cast<double>(bytes), 64, 0, 0};
  if (!conflicts) return c;
  // A way of a first-level cache is a page, since addresses are translated while a set is read. The ways of other
  // caches are guesses.
  const int64_t pages = bytes / static_cast<int64_t>(kPage);
  for (int64_t ways : {pages >= 1 && pages <= 16 ? pages : 12, int64_t{12}, int64_t{16}, int64_t{8}}) {
    const int64_t sets = bytes / 64 / ways;
    if (sets > 0 && std::has_single_bit(static_cast<uint64_t>(sets)) && sets * ways * 64 == bytes) {
      c.sets = static_cast<double>(sets);
      c.ways = static_cast<double>(ways);
      break;
    }
  }
  return c;
}

void traffic(const Features& features, const CacheShape& cache, std::vector<Traffic>& accesses) {
  auto& model = per_thread<Model, struct TrafficModel>();
  model.run(features, cache, accesses);
}

} // namespace lathe::search
