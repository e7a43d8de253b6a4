#include "device.hpp"

#include <setjmp.h>
#include <ucontext.h>

#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

Dimensions threadIdx, blockIdx, blockDim, gridDim;
unsigned char shared[1];

namespace emulator {

namespace {

constexpr int kMostWarps = 32;

using Work = std::function<void()>;

/// Work of a thread in groups, the last one open, that is done when its group is waited for.
class Deferred {
public:
    void add(Work work) { open_.push_back(std::move(work)); }
    void close() { groups_.push_back(std::exchange(open_, {})); }
    void wait(int pending) {
        for (; groups_.size() > static_cast<size_t>(pending); groups_.pop_front())
            for (const Work& work : groups_.front()) work();
    }
    std::vector<Work> take() {
        close();
        std::vector<Work> all;
        for (std::vector<Work>& group : groups_) std::move(group.begin(), group.end(), std::back_inserter(all));
        groups_.clear();
        return all;
    }

private:
    std::vector<Work> open_;
    std::deque<std::vector<Work>> groups_;
};

struct Fiber {
    static constexpr size_t kStackBytes = 256 << 10;
    ucontext_t first; // where it begins, on its stack
    jmp_buf next;     // where it goes on
    std::unique_ptr<char[]> stack{new char[kStackBytes]};
    bool begun = false, done = false, waited_for_previous = false;
    int registers = 0;
    std::shared_ptr<int> open_copies = std::make_shared<int>(0); // of a group, that are not done
    std::deque<std::shared_ptr<int>> copies;
    Deferred copies_in, products;
};

struct Due {
    int64_t round;
    Work work;
};

struct Meeting {
    int count = 0;
    int arrived = 0;
    int64_t generation = 0;
};

/// As the hardware counts: a phase ends when all arrivals and all expected bytes are there.
struct Barrier {
    int arrivals = 0;
    int pending = 0;
    int bytes = 0;
    int phase = 0;
    int maker = 0; // a thread
    bool fenced = false;

    void end_phase() {
        constexpr int kMostBytes = (1 << 20) - 1;
        progress();
        require(pending >= 0, "a barrier of %d arrivals has more", arrivals);
        require(std::abs(bytes) <= kMostBytes, "a barrier waits for %d bytes", bytes);
        if (pending > 0 || bytes != 0) return;
        pending = arrivals;
        ++phase;
    }
};

jmp_buf scheduler;
Fiber* running;
void (*entry)();
int64_t events;
int64_t rounds;
std::vector<Due> due;
uint32_t chance = 1;
std::map<int, Meeting> meetings;
std::map<uint32_t, Barrier> barriers;
Words given[kMostWarps][32];
int free_registers; // of a lane, that warps have given and none has taken
const unsigned char* previous;
size_t previous_bytes;

/// A random number of 16 bits, the same ones in every run.
uint32_t draw() {
    chance = chance * 1664525 + 1013904223;
    return chance >> 16;
}

/// Does what is due.
void do_work() {
    ++rounds;
    std::vector<Due> now, rest;
    for (Due& one : due) (one.round <= rounds ? now : rest).push_back(std::move(one));
    due = std::move(rest);
    for (const Due& one : now) one.work();
}

void require_registers(int registers) {
    require(registers % 8 == 0 && registers >= 24 && registers <= 256, "setmaxnreg has %d registers", registers);
}

/// Runs a fiber until it yields or ends. Unlike swapcontext, _setjmp and _longjmp leave the mask of signals alone,
/// which takes two system calls.
void resume(Fiber& fiber) {
    running = &fiber;
    if (_setjmp(scheduler) != 0) return;
    if (fiber.begun) _longjmp(fiber.next, 1);
    fiber.begun = true;
    setcontext(&fiber.first);
}

void begin() {
    entry();
    running->done = true;
    progress();
    _longjmp(scheduler, 1);
}

} // namespace

void progress() {
    ++events;
}

void yield() {
    if (_setjmp(running->next) == 0) _longjmp(scheduler, 1);
}

void later(Work work) {
    const uint32_t value = draw(), most_rounds = value % 4 == 0 ? 200 : 12; // some take long
    due.push_back({rounds + 1 + value / 4 % most_rounds, std::move(work)});
}

void copy_out(Work copy) {
    std::shared_ptr<int> left = running->open_copies;
    ++*left;
    later([left, copy = std::move(copy)] {
        copy();
        --*left;
    });
}

void close_copies() {
    running->copies.push_back(std::exchange(running->open_copies, std::make_shared<int>(0)));
}

void wait_copies(int pending) {
    std::deque<std::shared_ptr<int>>& groups = running->copies;
    for (; groups.size() > static_cast<size_t>(pending); groups.pop_front())
        while (*groups.front() > 0) yield();
}

void copy_in(Work copy) {
    running->copies_in.add(std::move(copy));
}

void close_copies_in() {
    running->copies_in.close();
}

void wait_copies_in(int pending) {
    running->copies_in.wait(pending);
}

std::vector<Work> take_copies_in() {
    return running->copies_in.take();
}

void multiply(Work product) {
    running->products.add(std::move(product));
}

void close_products() {
    running->products.close();
}

void wait_products(int pending) {
    running->products.wait(pending);
}

void take_registers(int registers) {
    require_registers(registers);
    const int more = registers - running->registers;
    require(more >= 0, "setmaxnreg.inc has %d registers of %d", registers, running->registers);
    if (threadIdx.x % 32 == 0) {
        while (more > free_registers) yield();
        free_registers -= more;
        progress();
    }
    running->registers = registers;
}

void give_registers(int registers) {
    require_registers(registers);
    const int less = running->registers - registers;
    require(less >= 0, "setmaxnreg.dec has %d registers of %d", registers, running->registers);
    if (threadIdx.x % 32 == 0) {
        free_registers += less;
        progress();
    }
    running->registers = registers;
}

void meet(int number, int count) {
    Meeting& meeting = meetings[number];
    if (meeting.count == 0) meeting.count = count;
    require(count % 32 == 0 && count == meeting.count, "barrier %d is for %d threads, not for %d", number,
            meeting.count, count);
    const int64_t generation = meeting.generation;
    progress();
    if (++meeting.arrived == count) {
        meeting.arrived = 0;
        ++meeting.generation;
        return;
    }
    while (meeting.generation == generation) yield();
    progress();
}

const Words* exchange(const uint32_t* words, int count) {
    const int warp = threadIdx.x / 32;
    std::copy_n(words, count, given[warp][threadIdx.x % 32].words);
    meet(kFirstWarp + warp, 32);
    return given[warp];
}

void exchanged() {
    meet(kFirstWarp + threadIdx.x / 32, 32);
}

void set_previous(const void* results, size_t bytes) {
    previous = static_cast<const unsigned char*>(results);
    previous_bytes = bytes;
}

void wait_for_previous() {
    running->waited_for_previous = true;
}

void require_waited(const void* src) {
    const bool is_result = src >= previous && src < previous + previous_bytes;
    require(!is_result || running->waited_for_previous, "a copy is from %p, where the kernel before may still write",
            src);
}

void barrier_init(uint32_t address, int arrivals) {
    barriers[address] = {arrivals, arrivals, 0, 0, threadIdx.x, false};
}

void fence_barriers() {
    for (auto& [address, barrier] : barriers) barrier.fenced = barrier.fenced || barrier.maker == threadIdx.x;
}

void barrier_arrive(uint32_t address) {
    Barrier& barrier = barriers.at(address);
    --barrier.pending;
    barrier.end_phase();
}

void barrier_expect(uint32_t address, int bytes) {
    Barrier& barrier = barriers.at(address);
    barrier.bytes += bytes;
    if (bytes >= 0) return;
    require(barrier.fenced, "TMA counts bytes at barrier %u, which nobody has fenced", address);
    barrier.end_phase();
}

void barrier_wait(uint32_t address, int parity) {
    Barrier& barrier = barriers.at(address);
    // The phase that is waited for is the present one or the one before.
    while (barrier.phase % 2 == parity) yield();
    progress();
}

void run_cta(int block, int threads, void (*thread)()) {
    entry = thread;
    blockDim = {threads, 1, 1};
    blockIdx.x = block;
    meetings.clear();
    barriers.clear();
    poison_shared();
    constexpr int kRegisters = 1 << 16; // of a multiprocessor, which a CTA may have alone
    free_registers = 0;
    std::vector<Fiber> fibers(static_cast<size_t>(threads));
    std::vector<int64_t> stalled_until(static_cast<size_t>((threads + 31) / 32), 0); // warps, in rounds
    for (Fiber& fiber : fibers) {
        fiber.registers = kRegisters / threads / 8 * 8;
        getcontext(&fiber.first);
        fiber.first.uc_stack.ss_sp = fiber.stack.get();
        fiber.first.uc_stack.ss_size = Fiber::kStackBytes;
        fiber.first.uc_link = nullptr;
        makecontext(&fiber.first, begin, 0);
    }
    for (bool left = true; left;) {
        const int64_t before = events;
        bool stalled = false;
        left = false;
        do_work();
        for (int64_t& until : stalled_until)
            if (until <= rounds && draw() % 64 == 0) until = rounds + 1 + draw() % 32;
        for (int i = 0; i < threads; ++i) {
            Fiber& fiber = fibers[static_cast<size_t>(i)];
            if (fiber.done) continue;
            left = true;
            if (stalled_until[static_cast<size_t>(i / 32)] > rounds) {
                stalled = true;
                continue;
            }
            threadIdx = {i, 0, 0};
            resume(fiber);
        }
        if (left && !stalled && events == before && due.empty()) {
            std::printf("all threads wait for one another\n");
            std::exit(2);
        }
    }
    if (!due.empty()) {
        std::printf("copies are under way when the threads have ended\n");
        std::exit(2);
    }
}

} // namespace emulator
