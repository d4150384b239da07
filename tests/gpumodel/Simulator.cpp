// A model of a GPU that runs one kernel: warps that issue in order by ptxas's
// stall counts and scoreboards, four schedulers a processor, pipes with issue
// intervals, and one server of bandwidth. No caches but a latency, no
// instruction fetch, no values.
//
//   gpu-simulator < JOBS        what a job is: readJob; a line of answers for
//   each
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace {

// What an instruction keeps busy. The order is the one of simulate.py.
enum Class {
  Fma, HalfFma, Alu, Xu, Load, Store, Shared, Control, Other, Barrier, Fence,
  // Of products: cp.async, a group of such, and a wait for all groups but as
  // many as its bytes say.
  Mma, Copy, Commit, Wait,
  Classes
};

struct Instruction {
  int unit, stall, sets, releases, waits, bytes, jumps;
};
using Code = std::vector<Instruction>;

enum Part { Entry, Before, Loop, After, End, Parts };

constexpr int schedulers = 4, warpsPerBlock = 8, barriers = 6;
constexpr int64_t never = INT64_MAX / 4;

struct Machine {
  int processors, blocks; // blocks: resident at most on a processor
  double bandwidth, fill; // bytes a cycle: of the memory, of a processor
  double cached;          // and of the L2 cache
  int64_t memory, cache;  // cycles until a load is there
  int64_t blockStart, jump, multi, sharedLatency, queue;
  double interval[Classes];
};

struct Job {
  int64_t items, mostBlocks;
  int perBlock, chunkWarps;
  std::vector<int64_t> rounds; // of a chunk's warps
  Code code[Parts];
};

struct Warp {
  int64_t done[barriers], ready;
  int64_t copied, groups[8]; // when copies are there
  int committed;
  int64_t item, left;
  size_t at;
  int part, block, inBlock;
};

struct Block {
  int processor, alive, waiting;
  std::vector<int> stopped;
};

struct Scheduler {
  std::vector<int> warps;
  size_t turn = 0;
  double pipe[Classes] = {};
};

class Simulation {
public:
  Simulation(const Machine &machine, const Job &job)
      : machine(machine), job(job), queued(machine.processors),
        filled(machine.processors) {
    schedules.resize(size_t(machine.processors) * schedulers);
    blocks = (job.items + job.perBlock - 1) / job.perBlock;
    blocks = std::min(blocks, job.mostBlocks);
  }
  void run();

private:
  const Code &code(const Warp &warp) const { return job.code[warp.part]; }
  void startBlock(int processor, int64_t time);
  bool beginItem(Warp &warp);
  bool nextPart(Warp &warp);
  bool findWork(Warp &warp);
  void settle(Warp &warp, int64_t from);
  void issue(Scheduler &scheduler, int number, int64_t time);
  int64_t access(int processor, const Instruction &one, int64_t time);
  void stop(Warp &warp, int number, int64_t time);
  void release(Block &block, int64_t time);
  void retire(Scheduler &scheduler, int number, int64_t time);
  void wake(int scheduler, int64_t time) { events.push({time, scheduler}); }

  const Machine &machine;
  const Job &job;
  std::vector<Warp> warps;
  std::vector<Block> started;
  std::vector<Scheduler> schedules;
  std::vector<int64_t> queued; // until when a processor's load unit is busy
  std::vector<double> filled;  // and what brings its bytes
  using Event = std::pair<int64_t, int>;
  std::priority_queue<Event, std::vector<Event>, std::greater<Event>> events;
  double served = 0, moved = 0, waitedBytes = 0, fetched = 0;
  int64_t blocks = 0, nextBlock = 0, now = 0, issued = 0;
  uint32_t noise = 1;
};

void Simulation::startBlock(int processor, int64_t time) {
  int64_t number = nextBlock++;
  int id = int(started.size());
  started.push_back({processor, 0, 0, {}});
  for (int k = 0; k < warpsPerBlock; ++k) {
    Warp warp{};
    warp.block = id;
    warp.inBlock = k;
    warp.item = number * job.perBlock + k / job.chunkWarps;
    warp.part = -1;
    if (!findWork(warp))
      continue;
    settle(warp, time);
    int scheduler = processor * schedulers + k % schedulers;
    warps.push_back(warp);
    schedules[size_t(scheduler)].warps.push_back(int(warps.size()) - 1);
    ++started[size_t(id)].alive;
    wake(scheduler, warps.back().ready);
  }
}

// A warp without elements of its chunk leaves what belongs to chunks out.
bool Simulation::beginItem(Warp &warp) {
  int64_t rounds = job.rounds[size_t(warp.inBlock % job.chunkWarps)];
  if (warp.item >= job.items || rounds < 0)
    return false;
  warp.left = rounds;
  return true;
}

bool Simulation::nextPart(Warp &warp) {
  switch (warp.part) {
  case -1:
    warp.part = Entry;
    return true;
  case Entry:
    warp.part = beginItem(warp) ? Before : End;
    return true;
  case Before:
  case Loop:
    warp.part = warp.left-- > 0 ? Loop : After;
    return true;
  case After:
    warp.item += blocks * job.perBlock;
    warp.part = beginItem(warp) ? Before : End;
    return true;
  default:
    return false;
  }
}

// Goes on to a part that has instructions.
bool Simulation::findWork(Warp &warp) {
  warp.at = 0;
  do
    if (!nextPart(warp))
      return false;
  while (code(warp).empty());
  return true;
}

// When the next instruction may issue as far as its own warp is concerned.
void Simulation::settle(Warp &warp, int64_t from) {
  warp.ready = from;
  int waits = code(warp)[warp.at].waits;
  for (int b = 0; b < barriers; ++b)
    if (waits >> b & 1)
      warp.ready = std::max(warp.ready, warp.done[b]);
}

// Cycles until a load or store of global memory is done.
int64_t Simulation::access(int processor, const Instruction &one,
                           int64_t time) {
  if (one.unit == Shared && !one.bytes) // what sweeps have of it is little
    return machine.sharedLatency;
  int64_t waves = std::max(1, one.bytes / 128);
  int64_t &unit = queued[size_t(processor)];
  unit = std::max(unit, time) + waves;
  if (one.unit == Shared)
    return std::max(unit - time, machine.sharedLatency);
  double &port = filled[size_t(processor)];
  if (one.unit == Copy) {
    double way = double(machine.cache) / 2;
    fetched = std::max(double(time) + way, fetched) + one.bytes / machine.cached;
    port = std::max(port, fetched) + one.bytes / machine.fill;
    return int64_t(port + way) - time;
  }
  if (one.bytes == 0) // a table's, and cached
    return machine.cache;
  double half = double(machine.memory) / 2;
  double start = std::max(double(time) + half, served);
  served = start + one.bytes / machine.bandwidth;
  moved += one.bytes;
  if (one.unit == Store)
    return 20;
  port = std::max(port, served) + one.bytes / machine.fill;
  noise = noise * 1664525u + 1013904223u;
  int64_t late = int64_t(noise >> 8) % std::max<int64_t>(1, machine.memory / 6);
  int64_t cycles = int64_t(port + half) - time + late;
  waitedBytes += double(cycles) * one.bytes;
  return cycles;
}

void Simulation::issue(Scheduler &scheduler, int number, int64_t time) {
  Warp &warp = warps[size_t(number)];
  const Instruction one = code(warp)[warp.at];
  int processor = started[size_t(warp.block)].processor;
  ++issued;
  double &pipe = scheduler.pipe[one.unit]; // a part of a cycle is not lost
  pipe = (pipe > double(time - 1) ? pipe : double(time)) + machine.interval[one.unit];
  if (one.unit == Fma)
    scheduler.pipe[HalfFma] =
        std::max(scheduler.pipe[HalfFma], double(time) + machine.interval[Fma]);
  int64_t latency = 0, blocked = 0;
  if (one.unit == Load || one.unit == Store || one.unit == Copy || one.unit == Shared)
    latency = access(processor, one, time);
  if (one.unit == Copy) // its registers are free as soon as those of a store
    warp.copied = std::max(warp.copied, time + std::exchange(latency, 20));
  else if (one.unit == Xu || one.unit == Other)
    latency = machine.multi;
  else if (one.unit == Fence)
    latency = blocked = machine.cache;
  if (one.sets < barriers)
    warp.done[one.sets] = std::max(warp.done[one.sets], time + latency);
  if (one.releases < barriers)
    warp.done[one.releases] = std::max(warp.done[one.releases], time + 12);
  int64_t next =
      time + std::max(1, one.stall) + (one.jumps ? machine.jump : 0) + blocked;
  if (one.unit == Commit)
    warp.groups[warp.committed++ % 8] = warp.copied;
  else if (one.unit == Wait && warp.committed > one.bytes)
    next = std::max(next, warp.groups[(warp.committed - 1 - one.bytes) % 8]);
  bool waits = one.unit == Barrier;
  if (++warp.at >= code(warp).size() && !findWork(warp))
    return retire(scheduler, number, time);
  settle(warp, next);
  if (waits)
    stop(warp, number, time);
}

void Simulation::stop(Warp &warp, int number, int64_t time) {
  Block &block = started[size_t(warp.block)];
  warp.ready += never;
  block.stopped.push_back(number);
  if (++block.waiting == block.alive)
    release(block, time);
}

void Simulation::release(Block &block, int64_t time) {
  for (int number : block.stopped) {
    Warp &warp = warps[size_t(number)];
    warp.ready = std::max(warp.ready - never, time + machine.sharedLatency);
    wake(block.processor * schedulers + warp.inBlock % schedulers, warp.ready);
  }
  block.stopped.clear();
  block.waiting = 0;
}

void Simulation::retire(Scheduler &scheduler, int number, int64_t time) {
  auto &list = scheduler.warps;
  list.erase(std::find(list.begin(), list.end(), number));
  Block &block = started[size_t(warps[size_t(number)].block)];
  int processor = block.processor;
  if (--block.alive > 0 && block.waiting == block.alive)
    return release(block, time);
  if (block.alive == 0 && nextBlock < blocks)
    startBlock(processor, time + machine.blockStart);
}

void Simulation::run() {
  for (int round = 0; round < machine.blocks; ++round)
    for (int p = 0; p < machine.processors && nextBlock < blocks; ++p)
      startBlock(p, 0);
  std::vector<int64_t> due(schedules.size(), -1);
  while (!events.empty()) {
    auto [time, number] = events.top();
    events.pop();
    Scheduler &scheduler = schedules[size_t(number)];
    if (due[size_t(number)] >= time)
      continue;
    due[size_t(number)] = time;
    int64_t soonest = never;
    size_t count = scheduler.warps.size();
    for (size_t k = 0; k < count; ++k) {
      size_t place = (scheduler.turn + k) % count;
      Warp &warp = warps[size_t(scheduler.warps[place])];
      int unit = code(warp)[warp.at].unit;
      int64_t ready = std::max(warp.ready, int64_t(std::ceil(scheduler.pipe[unit])));
      if (unit == Load || unit == Store || unit == Shared || unit == Copy)
        ready = std::max(ready,
                         queued[size_t(number / schedulers)] - machine.queue);
      if (ready <= time) {
        scheduler.turn = place + 1;
        now = std::max(now, time);
        issue(scheduler, scheduler.warps[place], time);
        soonest = time + 1;
        break;
      }
      soonest = std::min(soonest, ready);
    }
    if (soonest < never)
      wake(number, std::max(soonest, time + 1));
  }
  // Stores on their way are done when the memory has taken them.
  int64_t end = std::max(now, int64_t(served));
  double all = double(end) * machine.processors;
  printf("%lld %.0f %.4f %.1f\n", (long long)end, moved,
         double(issued) / (schedulers * all), waitedBytes / all);
}

void require(bool good, const char *what) {
  if (good)
    return;
  fprintf(stderr, "gpu-simulator: cannot read %s\n", what);
  exit(2);
}

long long number(const char *what) {
  long long value = 0;
  require(scanf("%lld", &value) == 1, what);
  return value;
}

double real(const char *what) {
  double value = 0;
  require(scanf("%lf", &value) == 1, what);
  return value;
}

Machine readMachine() {
  Machine m{};
  m.processors = int(number("processors"));
  m.blocks = int(number("blocks"));
  m.bandwidth = real("bandwidth");
  m.fill = real("fill");
  m.cached = real("cached");
  for (int64_t *field : {&m.memory, &m.cache, &m.blockStart, &m.jump, &m.multi,
                         &m.sharedLatency, &m.queue})
    *field = number("a latency");
  for (double &interval : m.interval)
    interval = real("an interval");
  require(m.processors > 0 && m.blocks > 0 && m.bandwidth > 0 && m.fill > 0,
          "a machine");
  return m;
}

Job readJob() {
  Job job{};
  job.items = number("items");
  job.mostBlocks = number("blocks");
  job.perBlock = int(number("items per block"));
  job.chunkWarps = int(number("warps per chunk"));
  require(job.items > 0 && job.perBlock > 0 && job.mostBlocks > 0 &&
              job.chunkWarps > 0 &&
              job.chunkWarps * job.perBlock == warpsPerBlock,
          "a job");
  job.rounds.resize(size_t(job.chunkWarps));
  for (int64_t &rounds : job.rounds)
    rounds = number("rounds");
  for (Code &code : job.code) {
    long long count = number("a part's length");
    require(count >= 0 && count < 1 << 20, "a part's length");
    for (long long i = 0; i < count; ++i) {
      Instruction one{};
      for (int *field : {&one.unit, &one.stall, &one.sets, &one.releases,
                         &one.waits, &one.bytes, &one.jumps})
        *field = int(number("an instruction"));
      require(one.unit >= 0 && one.unit < Classes, "an instruction's unit");
      code.push_back(one);
    }
  }
  return job;
}

} // namespace

int main() {
  for (long long left = number("the number of jobs"); left > 0; --left) {
    Machine machine = readMachine();
    Job job = readJob();
    Simulation(machine, job).run();
  }
  return 0;
}
