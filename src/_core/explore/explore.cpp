// Breadth-first enumeration: some states are expanded, then all their successors are looked up, then those that are new are
// numbered in order. Numbers are the same as one by one, however many states go together and whoever expands them.
#include "explore/explore.h"

#include <algorithm>

#include "explore/slice.h"
#include "store/threads.h"

namespace polvet {

AnyStore make_store(uint32_t words) {
    switch (words) {
    case 1: return Store<1>(1);
    case 2: return Store<2>(2);
    case 3: return Store<3>(3);
    case 4: return Store<4>(4);
    default: return Store<0>(words);
    }
}

AnyTree make_tree(uint32_t words) {
    switch (words) {
    case 1: return Store<1>(1);
    case 2: return Store<2>(2);
    case 3: return Tree<3>(3);
    case 4: return Tree<4>(4);
    default: return Tree<0>(words);
    }
}

void copy_states(const AnyTree& states, size_t begin, size_t end, std::vector<uint64_t>& out) {
    std::visit(
        [&](const auto& store) {
            std::vector<uint64_t> room(store.words());
            out.reserve(out.size() + (end - begin) * store.words());
            for (size_t number = begin; number < end; ++number) {
                const uint64_t* state = store.state(number, room.data());
                out.insert(out.end(), state, state + store.words());
            }
        },
        states);
}

namespace {

constexpr size_t BATCH_BRANCHES = 256, BATCH_STATES = 64;  // of one thread alone: what the nearest cache holds
constexpr size_t SLICE_STATES = 4096;                      // of each of several threads
constexpr size_t SLICE_BRANCHES = 1 << 20;

template <class States> class Search {
public:
    Search(Space& space, States& store, const ExploreOptions& options, Limits& limits)
        : space_(space), store_(store), options_(options), limits_(limits) {
        if (options.build) space.matrix.rewards.resize(space.program->step_rewards.size());
    }

    void begin(const uint64_t* initial, size_t count) {
        for (size_t k = 0; k < count; ++k) {
            auto [id, fresh] = store_.insert(initial + k * store_.words());
            if (!fresh) continue;
            space_.initial.push_back(id);
            if (options_.parents) space_.parent.push_back(id);
        }
    }

    void run() {
        Slice<States> slice(space_, store_, options_);
        const bool many = options_.threads > 1 && !(options_.policy && !options_.policy->threads);
        const size_t wide = many ? options_.threads * options_.fewest : SIZE_MAX;
        const size_t head = alone(slice, 0, wide, [&](size_t done) { return limits_.poll(bytes(), done, store_.size()); });
        if (space_.status == Status::DONE && head < store_.size()) together(head, wide);
        add(slice.counts);
        if (space_.status == Status::DONE && store_.size() > limits_.states) space_.status = Status::STATES;
    }

private:
    // Go on from state `head` until nothing is open, or so much that several threads are worth it; returns where that is.
    template <class Poll> size_t alone(Slice<States>& slice, size_t head, size_t wide, const Poll& poll) {
        size_t until_poll = head, made = 0;
        for (; head < store_.size() && store_.size() - head < wide; head += slice.size()) {
            if (head >= until_poll || made >= MANY_BRANCHES) {
                until_poll = head + (options_.policy ? options_.policy->patience(2048) : 2048);
                made = 0;
                space_.status = poll(head);
                if (space_.status != Status::DONE) break;
            }
            if (!slice.expand(head, std::min(head + BATCH_STATES, store_.size()), BATCH_BRANCHES)) {
                broke(slice);
                break;
            }
            made += slice.branches();
            slice.hash();
            for (size_t b = 0; b < slice.branches(); ++b) number(slice, b);
            if (options_.build && !slice.write_rows(space_.matrix)) {
                broke(slice);
                break;
            }
        }
        return head;
    }

    // All threads expand and look up a slice each; the first one numbers what is new, slice by slice; all write their rows. Where little
    // is open, the first one goes on alone.
    void together(size_t head, size_t wide) {
        const size_t threads = options_.threads;
        std::vector<std::unique_ptr<Slice<States>>> slices;
        for (size_t k = 0; k < threads; ++k) slices.push_back(std::make_unique<Slice<States>>(space_, store_, options_));
        std::vector<Matrix> parts(options_.build ? threads : 0);
        Crew crew;
        Gate gate(threads, crew.stop);
        size_t each = 0, most = SLICE_STATES;  // with `head`, written by the first thread while the others wait
        bool over = false;
        std::atomic<uint64_t> done = head, known = store_.size();  // for whoever watches
        const auto full = [&](size_t at) {
            done = at;
            known = store_.size();
            return store_.size() > limits_.states ? Status::STATES : bytes() > limits_.bytes ? Status::MEMORY : crew.stop.load();
        };
        const auto plan = [&] {
            for (Matrix& part : parts) append_rows(space_.matrix, part);
            for (auto& slice : slices)
                if (slice->faulty >= 0 && space_.status == Status::DONE) broke(*slice);
            if (space_.status == Status::DONE) space_.status = full(head);
            if (space_.status == Status::DONE) head = alone(*slices[0], head, wide, full);
            over = head == store_.size() || space_.status != Status::DONE;
            each = std::min((store_.size() - head + threads - 1) / threads, most);
            most = std::min(2 * most, SLICE_STATES);
        };
        const auto number_all = [&] {
            for (auto& slice : slices) {
                if (slice->first() != head) slice->forget();  // the one before it had too many branches to come to its end
                if (slice->faulty >= 0) return broke(*slice);
                for (size_t k = 0; k < slice->unknown.size(); ++k) {
                    if (k + 8 < slice->unknown.size()) store_.prefetch(slice->hash_of(slice->unknown[k + 8]));
                    number(*slice, slice->unknown[k]);
                }
                head += slice->size();
                if (slice->branches() >= SLICE_BRANCHES) most = slice->size();
            }
        };
        const auto work = [&](size_t me) {
            Slice<States>& mine = *slices[me];
            for (;;) {
                if (me == 0) plan();
                if (!gate.pass() || over) return;
                const size_t from = std::min(head + me * each, store_.size()), to = std::min(from + each, store_.size());
                if (mine.expand(from, to, SLICE_BRANCHES)) mine.look_up();
                if (!gate.pass()) return;
                if (me == 0) number_all();
                if (!gate.pass()) return;
                if (!options_.build) continue;
                if (space_.status == Status::DONE) mine.write_rows(parts[me]);
                if (!gate.pass()) return;
            }
        };
        crew.run(threads, work, [&] { return limits_.poll(0, done, known); });  // memory is looked at by the plan
        if (space_.status == Status::DONE) space_.status = crew.stop;
        for (const auto& slice : slices) add(slice->counts);
    }

    void number(Slice<States>& slice, size_t b) {
        auto [id, fresh] = store_.insert(slice.branch(b), slice.hash_of(b));
        slice.ids[b] = id;
        if (fresh && options_.parents) space_.parent.push_back(slice.origin(b));
    }

    void broke(const Slice<States>& slice) {
        space_.status = Status::FAULT;
        space_.faulty = slice.faulty;
        space_.fault = slice.fault;
        space_.policy_broken = slice.policy_broken;
    }

    void add(const Counts& counts) {
        Counts& all = space_.counts;
        all.expanded += counts.expanded;
        all.choices += counts.choices;
        all.moves += counts.moves;
        all.transitions += counts.transitions;
        all.deadlocks += counts.deadlocks;
        all.stuck += counts.stuck;
        all.near_ties += counts.near_ties;
    }

    uint64_t bytes() const { return store_.bytes() + space_.matrix.bytes() + space_.parent.capacity() * 4; }

    Space& space_;
    States& store_;
    const ExploreOptions& options_;
    Limits& limits_;
};

}  // namespace

void explore(Space& space, const uint64_t* initial, size_t count, const ExploreOptions& options, Limits& limits) {
    std::visit(
        [&](auto& store) {
            Search search(space, store, options, limits);
            search.begin(initial, count);
            search.run();
        },
        space.store);
}

}  // namespace polvet
