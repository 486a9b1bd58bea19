#include "search/cost/cost.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <unordered_map>

#include "core/per_thread.hpp"
#include "graph/scan.hpp"
#include "render/prefetch.hpp"
#include "search/cost/constants.hpp"
#include "search/cost/parallelism.hpp"
#include "search/cost/traffic.hpp"
#include "search/machine/machine_limits.hpp"
#include "search/machine/profile.hpp"
#include "search/moves/plan.hpp"

namespace lathe::search {
namespace {

double instructions_of(const Work& w) { return w.arithmetic + w.loads + w.stores + w.other; }

/// What the code is made for, on the machine that it runs on.
struct Core {
  const MachineProfile& machine;
  double registers, multiplied_per_cycle, mixed_per_cycle;
  double passes; // of one vector through units that are narrower
};
Core core_of(const Target& target, const MachineProfile& machine) {
  const int width = vector_width(target);
  const double multiplied = machine.flops_per_second[width] * machine.cycle_seconds / (2.0 * (4 << width));
  return {machine, static_cast<double>(target.vector_registers), multiplied, machine.mixed_per_cycle[width],
          std::max(1.0, cost_constants.multipliers / multiplied)};
}

double spill_cycles(const Work& w, const Core& core) {
  return core.passes * cost_constants.spill_cycles * std::max(0.0, w.registers - core.registers);
}

/// `chain`: cycles.
double cycles_per_iteration(const Work& w, double chain, const Core& core) {
  if (w.empty()) return 0;
  const double instructions = instructions_of(w);
  double waits = w.waits;
  for (int i = 0; i < 3; ++i) waits += w.divisions[i] * core.machine.division_cycles[i];
  double cycles =
      std::max({w.multiplications / core.multiplied_per_cycle, w.arithmetic / core.mixed_per_cycle,
                core.passes * w.loads / cost_constants.loads_per_cycle, core.passes * w.stores,
                instructions / cost_constants.front_end, waits, chain});
  cycles += core.passes * cost_constants.loads_show * std::min(w.arithmetic, w.loads) / 2;
  if (instructions > cost_constants.decoded) cycles = std::max(cycles, instructions / 4);
  return cycles + spill_cycles(w, core);
}

struct Compute {
  double total = 0, latency = 0, spills = 0, overhead = 0, instructions = 0;
  double inside = 0;     // of the loops in it, which are phases of their own
  double iterations = 0; // over all executions
};

/// A body with all its executions: what overlaps in time. One phase follows the other.
struct Phase {
  Compute compute;
  std::array<Traffic, 4> links{}; // out of each level but the last
  Traffic near_pages, far_pages;
  double asked = 0;              // bytes that come from far and were asked for ahead of time
  double near_asked = 0;         // and of those from the second level
  double spread = 0;             // and what comes by hints alone
  double from_memory_inside = 0; // seconds that phases inside of this one read from memory
};

/// Cycles of a loop over all its iterations, `times` over, by the loop that holds the body.
void add_cycles(const Features& f, int index, double times, const Core& core, std::vector<Phase>& phases) {
  const LoopInfo& l = f.loops[index];
  Compute& sum = phases[index].compute;
  const bool straight = is_straight(l.loop->kind);
  const double iterations = times * l.extent;
  Work body = l.body;
  bool has_children = false;
  for (int child = index + 1; child < l.end; child = f.loops[child].end) {
    add_cycles(f, child, iterations, core, phases);
    sum.inside += phases[child].compute.total + phases[child].compute.inside;
    has_children = true;
  }
  sum.iterations = iterations;
  // The loops of a straight-line body were counted with the loop around them.
  if (straight && body.empty()) return;
  double overhead = 0;
  if (!straight) {
    body.other += cost_constants.loop_instructions;
    overhead = cost_constants.loop_entry_cycles +
               (l.extent > core.machine.predicted_trips ? core.machine.mispredict_cycles : 0);
  }
  // A short loop's next execution begins while the chain of this one is waited for.
  double chain = body.chain.cycles(core.machine.latency);
  if (times > 1)
    chain /= 1 + cost_constants.window / (std::max(1.0, l.extent) * std::max(1.0, instructions_of(body)));
  chain = std::max(chain, body.stalls);
  const double calls = l.loop->kind == ast::LoopKind::Parallel ? cost_constants.parallel_call_cycles
                       : l.loop->kind == ast::LoopKind::Group  ? cost_constants.group_cycles
                                                               : 0;
  const double cycles = std::max(has_children ? 2.0 : 1.0, cycles_per_iteration(body, chain, core));
  const double spills = spill_cycles(body, core);
  const double throughput = cycles_per_iteration(body, 0, core) - spills;
  sum.total += iterations * (cycles + calls) + times * overhead;
  sum.latency += iterations * std::max(0.0, cycles - spills - std::max(1.0, throughput));
  sum.spills += iterations * spills;
  sum.overhead += iterations * calls + times * overhead;
  sum.instructions += iterations * instructions_of(body);
}

/// The loop whose phase an access in `loop` belongs to: the one whose body is straight-line code, conditions
/// among it, or the nest in it.
int phase_of(const Features& f, int loop) {
  int nest = loop;
  while (f.loops[loop].parent >= 0 && (f.loops[loop].is_condition || is_straight(f.loops[loop].loop->kind))) {
    nest = loop;
    loop = f.loops[loop].parent;
  }
  const Work& body = f.loops[loop].body;
  return body.arithmetic + body.loads + body.stores + body.other > cost_constants.window ? nest : loop;
}

/// Terms in a fixed order, so that costing a kernel needs no strings.
enum Term {
  kArithmetic,
  kLatency,
  kSpills,
  kLoops,
  kHidden,
  kFromL2,
  kFromL3,
  kFromMemory,
  kPages,
  kFork,
  kLaunch,
  kBarriers,
  kTerms
};
constexpr const char* kNames[kTerms] = {"arithmetic",     "latency", "spills",  "loops",
                                        "not overlapped", "from L2", "from L3", "from memory",
                                        "pages",          "fork",    "launch",  "barriers"};
using Terms = std::array<double, kTerms>;

/// Bytes that come from far for one access.
struct Arrival {
  int phase;
  double bytes;
  double share; // of the phase's computing, during which they come
  bool by_hints;
  bool unasked; // constants: nothing has used their lines for a while
};

struct Workspace {
  Features features;
  std::vector<Traffic> moved; // by access
  std::vector<double> near;   // bytes read into the first level, by access
  std::vector<Arrival> arrivals;
  std::vector<Phase> phases; // by loop
};

/// Behind it is what counts as far: all beyond the second level.
size_t far_link(size_t links) { return std::min<size_t>(1, links - 1); }

void add(const Traffic& from, Traffic& to) {
  to.read += from.read;
  to.written += from.written;
  to.streamed += from.streamed;
  to.scattered += from.scattered;
  to.by_pages += from.by_pages;
  to.by_columns += from.by_columns;
  to.stray += from.stray;
}

/// The share of the computing during which what hints ask for comes from far, `bytes` of it. During the
/// shortest tile the longest may be asked for; and of passes through everything only the first is concerned.
double share_of_hints(const Features& f, const AccessInfo& access, double bytes) {
  const int ahead = f.loop_ahead(access);
  if (ahead < 0) return 1;
  const double all_passes = f.buffers[static_cast<size_t>(access.buffer)].element_bytes *
                            f.steps(access, [&](int l) { return l <= ahead || f.stride(access, l) != 0; });
  const double longest = unevenness(f, ahead);
  return std::min(1.0, bytes / all_passes) / (longest * longest);
}

/// Whether what hints ask for stays till its turn comes, a tile later: in the second level, or, where all of
/// it comes from memory, in the last.
bool stays_till_used(const Features& f, const AccessInfo& access, const Target& target,
                     const MachineProfile& machine, size_t links) {
  const BufferInfo& buffer = f.buffers[static_cast<size_t>(access.buffer)];
  const auto bytes_along = [&](int outside) {
    return buffer.element_bytes *
           f.steps(access, [&](int l) { return l > outside && f.stride(access, l) != 0; });
  };
  const double all =
      std::max(bytes_along(-1), buffer.constant ? static_cast<double>(target.constant_bytes) : 0);
  const auto usable = [&](size_t level) {
    return cost_constants.usable * static_cast<double>(machine.levels[level].bytes);
  };
  const size_t last = links - 1;
  return bytes_along(f.loop_ahead(access)) <= usable(all > usable(last) ? last : far_link(links));
}

void read_phases(const Target& target, const MachineProfile& machine, Workspace& space) {
  const Features& f = space.features;
  space.phases.assign(f.loops.size(), {});
  space.arrivals.clear();
  const auto share_out = [&](const CacheShape& cache, auto&& link) {
    traffic(f, cache, space.moved);
    for (size_t a = 0; a < f.accesses.size(); ++a)
      if (f.accesses[a].loop >= 0) link(space.phases[phase_of(f, f.accesses[a].loop)], space.moved[a], a);
  };
  const size_t links = std::min(machine.levels.size() - 1, std::tuple_size_v<decltype(Phase::links)>);
  const double threads = target.gpu ? 1 : std::max(1, std::min(target.threads, machine.cores));
  for (size_t i = 0; i < links; ++i) {
    CacheShape cache = cache_shape(machine.levels[i].bytes, i + 1 < links);
    cache.nearest = i == 0;
    cache.loses_constants = target.constant_bytes > machine.levels[i].bytes;
    if (i > 0)
      cache.loses_places =
          std::min(cost_constants.lost_at_most, cost_constants.kernels_between *
                                                    static_cast<double>(target.constant_bytes) /
                                                    target.constants / cache.bytes);
    if (i == 0 || i + 1 < links) { // the last level is one for all
      cache.threads = threads;
      cache.loses_values = cost_constants.cut_elsewhere * (1 - 1 / threads);
    }
    if (i > 0 && i + 1 == links) cache.all_lost = cost_constants.shared_fades;
    if (i == 0) space.near.assign(f.accesses.size(), 0);
    share_out(cache, [&](Phase& p, const Traffic& t, size_t a) {
      add(t, p.links[i]);
      if (i == 0) space.near[a] = t.read;
      const AccessInfo& access = f.accesses[a];
      const int64_t bytes_ahead = access.ahead * f.buffers[access.buffer].element_bytes;
      if (i == 0 && access.ahead != 0 && render::cache_level_ahead(bytes_ahead) == render::CacheLevel::First)
        p.near_asked += t.read;
      if (i != far_link(links)) return;
      const bool is_spread =
          f.buffers[access.buffer].is_prefetched() && stays_till_used(f, access, target, machine, links);
      if (is_spread || access.ahead != 0) p.asked += t.read;
      if (is_spread) p.spread += t.read;
      if (t.read <= 0) return;
      // Of what is read several times from near, all comes from far in the first of these passes, unless it
      // was asked for in the passes before.
      const double share = is_spread ? share_of_hints(f, access, t.read)
                                     : std::min(1.0, t.read / std::max(1.0, space.near[a]));
      space.arrivals.push_back({phase_of(f, access.loop), t.read, share, is_spread,
                                access.ahead == 0 && f.buffers[access.buffer].constant});
    });
  }
  const auto tlb = [&](double entries) {
    return CacheShape{entries * kPage, double{kPage}, 0, 0, false, false, 0, 0, threads};
  };
  share_out(tlb(cost_constants.first_tlb), [](Phase& p, const Traffic& t, size_t) { add(t, p.near_pages); });
  share_out(tlb(cost_constants.second_tlb), [](Phase& p, const Traffic& t, size_t) { add(t, p.far_pages); });
}

double link_seconds(const Traffic& t, const MachineProfile& machine, size_t level, bool last) {
  const MachineProfile::Level& from = machine.levels[level];
  const double read = from.read_bytes_per_second;
  // Short runs come without the prefetcher's help, which costs most where latency is longest.
  const double late = level >= 2
                          ? t.scattered / kCacheLine * std::max(0.0, from.line_seconds - kCacheLine / read) +
                                t.by_pages / kCacheLine * (from.line_of_page_seconds - from.line_seconds)
                          : cost_constants.near_late * t.scattered / read;
  // A line that goes to the second level is read there first and takes its way twice; one that goes further
  // is read while others are written.
  const double written =
      last ? t.written / machine.write_bytes_per_second : (level >= 2 ? 1 : 2) * t.written / read;
  const double streamed = last ? t.streamed / machine.streaming_write_bytes_per_second : 0;
  return t.read / read + late + written + streamed;
}

/// Seconds of lines that are used a few numbers at a time. All that are needed side by side come at once, and
/// the computing until the next ones are needed is too long to ask for those meanwhile.
double take_columns(Traffic& t, const MachineProfile::Level& from) {
  t.read -= std::min(t.read, t.by_columns);
  t.scattered -= std::min(t.scattered, t.by_columns);
  t.by_pages -= std::min(t.by_pages, t.by_columns);
  return t.by_columns / kCacheLine * from.line_of_column_seconds;
}

/// What `inner` carries that does not come from, or go to, where `outer` does.
Traffic beyond(const Traffic& inner, const Traffic& outer) {
  return {std::max(0.0, inner.read - outer.read),         std::max(0.0, inner.written - outer.written),
          std::max(0.0, inner.streamed - outer.streamed), std::max(0.0, inner.scattered - outer.scattered),
          std::max(0.0, inner.by_pages - outer.by_pages), std::max(0.0, inner.by_columns - outer.by_columns)};
}

/// What comes from far in a part of the computing can hide behind that part alone. Of this much reading, at
/// so many bytes a second (by itself, and by hints), the rest; and as much of the latter as there was
/// computing meanwhile.
struct Waiting {
  double seconds = 0, meanwhile = 0;
};
Waiting waiting_for(const std::vector<Arrival>& arrivals, int phase, double computing, double rate,
                    double hinted_rate) {
  Waiting out;
  for (const Arrival& a : arrivals) {
    if (a.phase != phase || (a.share >= 0.99 && !a.by_hints)) continue;
    const double slowest = a.by_hints ? hinted_rate : a.unasked ? cost_constants.unasked_rate * rate : rate;
    const double seconds = std::max(0.0, a.bytes / slowest - a.share * computing);
    out.seconds += seconds;
    out.meanwhile += a.share * seconds;
  }
  return out;
}

/// Adds to the terms; returns the seconds that it and all inside read from memory.
double add_phase(const Workspace& space, int index, const MachineProfile& machine, double cycle, double ways,
                 Terms& terms) {
  const Phase& phase = space.phases[static_cast<size_t>(index)];
  const Compute& compute = phase.compute;
  const double memory_ways = std::min({ways, static_cast<double>(machine.cores), kBandwidthCores});
  const double seconds = compute.total * cycle / ways;
  const size_t links = std::min(machine.levels.size() - 1, phase.links.size());
  // A line is charged once, at the rate of the furthest level that it comes from: nearer links carry it while
  // it is waited for, and are busy with nothing else.
  double link[3] = {0, 0, 0}, data = 0, far_reads = 0, far_writes = 0, from_memory = 0, columns = 0;
  double hinted_reads = 0; // as far_reads, if hints asked for all of it
  for (size_t i = 0; i < links; ++i) {
    const bool last = i + 1 == links;
    Traffic own = last ? phase.links[i] : beyond(phase.links[i], phase.links[i + 1]);
    if (i > 0) columns += take_columns(own, machine.levels[i + 1]) / (last ? memory_ways : ways);
    const double s = link_seconds(own, machine, i + 1, last) / (last ? memory_ways : ways);
    link[last ? 2 : std::min<size_t>(i, 1)] += s;
    if (i > 0) {
      const double reads = s * own.read / std::max(1.0, own.read + own.written + own.streamed);
      far_reads += reads;
      hinted_reads += std::max(reads, own.read / machine.levels[i + 1].hinted_bytes_per_second /
                                          (last ? memory_ways : ways));
      if (last) from_memory = reads;
      far_writes += s - reads;
    }
    data += s;
  }
  const Traffic& beyond_near = phase.links[far_link(links)];
  const double far = beyond_near.read;
  const Waiting waiting = far > 0
                              ? waiting_for(space.arrivals, index, seconds, far / std::max(far_reads, 1e-15),
                                            far / std::max(hinted_reads, 1e-15))
                              : Waiting{};
  const double burst = waiting.seconds;
  // What hints bring is under way while nearer data is waited for.
  const double by_hints =
      far > 0 ? (far_reads - std::min(burst, far_reads)) * std::min(1.0, phase.spread / far) : 0;
  data -= std::min(burst, far_reads) + by_hints;
  double stray = cost_constants.stray_store * beyond_near.stray / kCacheLine / ways, stored_meanwhile = 0;
  if (beyond_near.written / kCacheLine <= cost_constants.store_buffer * compute.iterations) {
    const double memory_idles = std::max(0.0, compute.inside * cycle / ways - phase.from_memory_inside);
    stored_meanwhile = std::min(far_writes + stray, memory_idles);
    const double share = stored_meanwhile / std::max(1e-15, far_writes + stray);
    data -= share * far_writes;
    stray *= 1 - share;
  }
  // Stores to lines that the first level has lost end one after the other. A burst of them is waited for, as
  // a line takes up more than one place among the stores that wait.
  const double lost_lines = std::max(0.0, phase.links[0].stray - beyond_near.stray) / kCacheLine;
  if (lost_lines > cost_constants.store_buffer / 2 * compute.iterations)
    stray += cost_constants.near_store * lost_lines / ways;
  // Lines from the second level that nothing foresaw take their time, whatever the link could carry.
  data = std::max(data, cost_constants.near_line * phase.links[0].scattered / kCacheLine / ways);
  // The longest of computing, moving and hints counts in full, the others as far as they don't hide behind
  // it.
  const double longest = std::max({seconds, data, by_hints});
  double shows = (seconds < longest ? cost_constants.computing_shows * seconds : 0) +
                 cost_constants.moving_shows *
                     ((data < longest ? data : 0) + (by_hints < longest ? by_hints : 0) + stored_meanwhile);
  if (const double near = phase.links[0].read; near > 0)
    shows += (cost_constants.near_shows +
              cost_constants.near_not_foreseen * std::max(0.0, 1 - phase.near_asked / near)) *
             link[0];
  double hidden = burst + std::max(0.0, shows - waiting.meanwhile) + stray + columns;
  if (far > 0) {
    const double for_each_line = compute.instructions / (far / kCacheLine);
    const double late =
        std::max(0.0, 1 - phase.asked / far) * std::min(1.0, for_each_line / cost_constants.in_window);
    // What no prefetcher foresees is late in any case; of the rest the machine's share.
    const double unforeseen = std::min(1.0, beyond_near.scattered / far);
    const double share =
        machine.late_share + unforeseen * std::max(0.0, cost_constants.not_foreseen - machine.late_share);
    hidden += share * late * std::min(seconds, std::max(0.0, far_reads - burst));
  }
  terms[kHidden] += hidden;
  terms[kPages] += ((phase.near_pages.scattered / kPage) * cost_constants.first_tlb_miss +
                    (phase.far_pages.scattered / kPage) * cost_constants.second_tlb_miss) /
                   ways;
  if (seconds >= longest) {
    terms[kLatency] += compute.latency * cycle / ways;
    terms[kSpills] += compute.spills * cycle / ways;
    terms[kLoops] += compute.overhead * cycle / ways;
    terms[kArithmetic] +=
        (compute.total - compute.latency - compute.spills - compute.overhead) * cycle / ways;
  } else {
    const double all = link[0] + link[1] + link[2];
    for (size_t i = 0; i < 3; ++i) terms[kFromL2 + i] += link[i] * longest / all;
  }
  return phase.from_memory_inside + from_memory;
}

/// `is_constant`: by parameter of the kernel; empty if it is not known.
Terms terms_of(const ast::Kernel& kernel, const std::vector<bool>& is_constant, const Target& target,
               const MachineProfile& machine) {
  auto& space = per_thread<Workspace, struct CostWorkspace>();
  Features& f = space.features;
  read_features(kernel, target, f);
  for (size_t p = 0; p < is_constant.size(); ++p)
    for (BufferInfo& b : f.buffers) b.constant |= is_constant[p] && b.buffer == kernel.params[p].buffer.get();
  read_phases(target, machine, space);

  const Core core = core_of(target, machine);
  const double cycle = machine.cycle_seconds;
  Terms terms{};
  terms[kArithmetic] = cycle * cycles_per_iteration(f.top, 0, core);
  size_t nests = 0;
  for (int nest = 0; nest < static_cast<int>(f.loops.size()); nest = f.loops[nest].end) {
    ++nests;
    add_cycles(f, nest, 1, core, space.phases);
    const double ways = parallelism(f, nest, target);
    for (int l = f.loops[nest].end; l-- > nest;) { // what lies inside comes first
      const double from_memory = add_phase(space, l, machine, cycle, ways, terms);
      if (const int parent = f.loops[l].parent; parent >= 0)
        space.phases[parent].from_memory_inside += from_memory;
    }
    if (has_parallel(f, nest) && target.threads > 1) terms[kFork] += machine.fork_seconds;
  }
  terms[kLaunch] = target.gpu ? cost_constants.gpu_launch * static_cast<double>(std::max<size_t>(1, nests))
                   : target.groups
                       ? cost_constants.opencl_launch * static_cast<double>(std::max<size_t>(1, nests))
                       : machine.launch_seconds;
  terms[kBarriers] = f.barriers * machine.barrier_seconds / std::max(1, target.threads);
  return terms;
}

} // namespace

namespace {

Cost cost_of(const Terms& terms) {
  Cost out;
  for (int i = 0; i < kTerms; ++i) {
    out.seconds += terms[i];
    if (terms[i] > 0) out.terms.push_back({kNames[i], terms[i]});
  }
  return out;
}

} // namespace

Cost cost(const KernelPlan& kernel, const Target& target, const MachineProfile& machine) {
  return cost_of(terms_of(kernel.kernel, kernel.is_constant, target, machine));
}

struct CostModel::State {
  Target target;
  MachineProfile machine;
  std::mutex mutex;
  std::unordered_map<uint64_t, Terms> known;

  Terms terms(const KernelPlan& kernel) {
    {
      std::lock_guard lock(mutex);
      if (auto it = known.find(kernel.hash); it != known.end()) return it->second;
    }
    const Terms terms = terms_of(kernel.kernel, kernel.is_constant, target, machine);
    std::lock_guard lock(mutex);
    known.emplace(kernel.hash, terms);
    return terms;
  }
};

CostModel::CostModel(Target target, MachineProfile machine) : state_(std::make_unique<State>()) {
  state_->target = std::move(target);
  state_->machine = std::move(machine);
}
CostModel::~CostModel() = default;

double CostModel::seconds(const KernelPlanRef& kernel) {
  double seconds = 0;
  for (double t : state_->terms(*kernel)) seconds += t;
  return seconds;
}

Cost CostModel::cost(const KernelPlanRef& kernel) { return cost_of(state_->terms(*kernel)); }

double estimated_steps(const lower::Recurrence& recurrence) {
  return estimate(graph::typical_steps(std::get<graph::ScanAttr>(recurrence.node->attr)));
}

double CostModel::seconds(const Plan& plan) {
  double sum = 0;
  for (const auto& kernel : plan.kernels) sum += seconds(kernel);
  for (size_t k = 0; k < plan.bodies.size(); ++k)
    sum += estimated_steps(plan.program->recurrences[k]) * seconds(*plan.bodies[k]);
  return sum;
}

const Target& CostModel::target() const { return state_->target; }
const MachineProfile& CostModel::machine() const { return state_->machine; }

} // namespace lathe::search
