// Reachability from all start states in rounds of chunks; see explicit.h.
#include "explore/explicit.h"

#include <algorithm>
#include <memory>

#include "store/threads.h"

namespace polvet {

namespace {
constexpr size_t BATCH = 64, CHUNK = 1024, CHUNKS_PER_THREAD = 16;
}

void Reachability::Chunk::clear() {
    for (List& list : out) {
        list.words.clear();
        list.hashes.clear();
        list.parents.clear();
    }
    ties.clear();
    bad = faulty = NOBODY;
    transitions = near_ties = 0;
    std::fill(ends, ends + 4, 0);
    broke = by_policy = again = false;
    fault = Fault::NONE;
}

// Expands states of a chunk; one per thread.
class Reachability::Worker {
public:
    explicit Worker(const Reachability& owner)
        : owner_(owner), machine_(owner.policy.program), chooser_(owner.policy), room_(owner.policy.program->words) {
        chooser_.want_sure = owner.policy.network != nullptr;
    }

    void run(Chunk& chunk) {
        for (size_t at = chunk.begin; at < chunk.end; at += BATCH) {
            ids_.clear();
            for (size_t k = at; k < std::min(at + BATCH, chunk.end); ++k)
                ids_.push_back(chunk.again ? owner_.ties_[k] : chunk.shard << LOCAL_BITS | uint32_t(k));
            if (!expand(chunk)) return;
        }
    }

    // The steps from a state, told one by one: `tell(target words, label, reference)`; for witnesses.
    template <class Tell> void steps(uint32_t id, const Tell& tell) {
        ids_.assign(1, id);
        Chunk unused;
        if (!ask(unused) || open_.empty()) return;
        choices(0);
        const size_t words = owner_.policy.program->words;
        for (const MoveRecord& move : e_.moves)
            for (uint32_t b = move.begin; b < move.end; ++b)
                if (is_reference(move) || is_rival(move)) tell(e_.words.data() + b * words, move.label, is_reference(move));
    }

private:
    // Ask model and policy about the states `ids_`; those in which runs end are counted and left out of `open_`.
    bool ask(Chunk& chunk) {
        e_.clear();
        chooser_.clear();
        open_.clear();
        move_end_.clear();
        for (uint32_t id : ids_) {
            const uint64_t* state = owner_.state(id, room_.data());
            const auto [fails, goal] = machine_.ends(owner_.fail_, owner_.goal_, state);
            if (machine_.fault != Fault::NONE) return broke(chunk, id, false);
            if (fails || goal) {
                ++chunk.ends[goal];
                if (fails && chunk.bad == NOBODY) chunk.bad = id;
                continue;
            }
            const size_t first = e_.moves.size();
            if (!machine_.expand(state, e_)) return broke(chunk, id, false);
            open_.push_back(id);
            move_end_.push_back(uint32_t(e_.moves.size()));
            chooser_.add(state, e_.moves.data() + first, e_.moves.data() + e_.moves.size());
        }
        chooser_.decide();
        return true;
    }

    void choices(size_t k) {
        chosen_ = chooser_.chosen[k];
        rivals_.clear();
        may_stick_ = false;
        if (chooser_.want_sure && !chooser_.sure[k]) chooser_.rivals(k, rivals_, may_stick_);
    }
    // Silent operators move whatever is chosen, but not where the policy is stuck.
    bool is_reference(const MoveRecord& move) const { return chosen_ >= PSEUDO_ACTION && (move.label < 0 || move.label == chosen_); }
    bool is_rival(const MoveRecord& move) const {
        return move.label < 0 ? !rivals_.empty() : std::find(rivals_.begin(), rivals_.end(), move.label) != rivals_.end();
    }

    bool expand(Chunk& chunk) {
        if (!ask(chunk)) return false;
        const size_t words = owner_.policy.program->words;
        for (size_t k = 0; k < open_.size(); ++k) {
            choices(k);
            if (chosen_ == BROKEN) return broke(chunk, open_[k], true);
            if (!chunk.again) {
                chunk.ends[2] += chosen_ == STUCK;
                chunk.ends[3] += chosen_ == DEADLOCK;
                if ((chosen_ == STUCK && owner_.bad_.stuck) || (chosen_ == DEADLOCK && owner_.bad_.deadlock)) {
                    if (chunk.bad == NOBODY) chunk.bad = open_[k];
                    continue;
                }
                if (!rivals_.empty() || may_stick_) {
                    ++chunk.near_ties;
                    if (!owner_.doubting_) chunk.ties.push_back(open_[k]);
                }
            }
            if (owner_.doubting_ && may_stick_ && owner_.bad_.stuck && chunk.bad == NOBODY) chunk.bad = open_[k];
            for (uint32_t v = k ? move_end_[k - 1] : 0; v < move_end_[k]; ++v) {
                const MoveRecord& move = e_.moves[v];
                if (!(is_reference(move) && !chunk.again) && !(owner_.doubting_ && is_rival(move))) continue;
                for (uint32_t b = move.begin; b < move.end; ++b) {
                    const uint64_t* target = e_.words.data() + b * words;
                    const uint64_t hash = owner_.hash(target);
                    List& list = chunk.out[hash % SHARDS];
                    list.words.insert(list.words.end(), target, target + words);
                    list.hashes.push_back(hash);
                    list.parents.push_back(open_[k]);
                }
                chunk.transitions += move.end - move.begin;
            }
        }
        return true;
    }

    bool broke(Chunk& chunk, uint32_t id, bool by_policy) {
        chunk.broke = true;
        chunk.by_policy = by_policy;
        chunk.fault = machine_.fault;
        chunk.faulty = id;
        return false;
    }

    const Reachability& owner_;
    Machine machine_;
    Chooser chooser_;
    Expansion e_;
    std::vector<uint32_t> ids_, open_, move_end_;
    std::vector<uint64_t> room_;  // for one state
    int32_t chosen_ = 0;
    std::vector<int32_t> rivals_;
    bool may_stick_ = false;
};

Reachability::Reachability(const BoundPolicy& policy_, int32_t fail, int32_t goal, Bad bad)
    : policy(policy_), fail_(fail), goal_(goal), bad_(bad), shards_{[&]<size_t... I>(std::index_sequence<I...>) {
          return std::array<Shard, SHARDS>{((void)I, Shard{make_tree(policy_.program->words), {}, 0})...};
      }(std::make_index_sequence<SHARDS>{})} {}

const uint64_t* Reachability::state(uint32_t id, uint64_t* room) const {
    return std::visit([&](const auto& s) { return s.state(local_of(id), room); }, shards_[shard_of(id)].store);
}
size_t Reachability::shard_size(uint32_t shard) const { return shards_[shard].parent.size(); }
uint64_t Reachability::hash(const uint64_t* state) const {
    return std::visit([&](const auto& s) { return s.hash(state); }, shards_[0].store);
}
size_t Reachability::size() const {
    size_t total = 0;
    for (const Shard& shard : shards_) total += shard.parent.size();
    return total;
}
uint64_t Reachability::bytes() const {
    uint64_t total = ties_.capacity() * 4;
    for (const Shard& shard : shards_)
        total += std::visit([](const auto& s) { return s.bytes(); }, shard.store) + shard.parent.capacity() * 4;
    return total;
}
void Reachability::copy_states(std::vector<uint64_t>& out) const {
    out.reserve(size() * policy.program->words);
    for (const Shard& shard : shards_) polvet::copy_states(shard.store, 0, shard.parent.size(), out);
}

uint64_t Reachability::add_starts(const uint64_t* states, size_t count) {
    const size_t words = policy.program->words;
    uint64_t fresh_ones = 0;
    for (size_t k = 0; k < count; ++k) {
        const uint64_t h = hash(states + k * words);
        Shard& shard = shards_[h % SHARDS];
        const bool fresh = std::visit([&](auto& s) { return s.insert(states + k * words, h).second; }, shard.store);
        if (fresh) {
            shard.parent.push_back(NOBODY);
            ++fresh_ones;
        }
    }
    return fresh_ones;
}

size_t Reachability::plan(size_t most) {
    size_t count = 0;
    const size_t large = policy.threads ? CHUNK : BATCH;
    const auto next = [&]() -> Chunk& {
        if (count == chunks_.size()) chunks_.emplace_back();
        chunks_[count].clear();
        return chunks_[count++];
    };
    // Round robin over the shards, so that rounds stay near breadth first.
    for (bool some = true; some && count < most;) {
        some = false;
        for (uint32_t s = 0; s < SHARDS && count < most; ++s) {
            if (shards_[s].head >= shard_size(s)) continue;
            Chunk& chunk = next();
            chunk.shard = s;
            chunk.begin = shards_[s].head;
            chunk.end = shards_[s].head = std::min(chunk.begin + large, shard_size(s));
            some = true;
        }
    }
    if (count) return count;
    if (!doubting_ && !ties_.empty()) doubting_ = true;
    for (; doubting_ && count < most && ties_head_ < ties_.size();) {
        Chunk& chunk = next();
        chunk.again = true;
        chunk.begin = ties_head_;
        chunk.end = ties_head_ = std::min(ties_head_ + large, ties_.size());
    }
    return count;
}

void Reachability::insert(uint32_t s, size_t count) {
    Shard& shard = shards_[s];
    const size_t words = policy.program->words;
    std::visit(
        [&](auto& store) {
            for (size_t c = 0; c < count; ++c) {
                const List& list = chunks_[c].out[s];
                const size_t n = list.hashes.size();
                for (size_t k = 0; k < n; ++k) {
                    if (k + 16 < n) store.prefetch(list.hashes[k + 16]);
                    if (k + 8 < n) store.prefetch_state(list.hashes[k + 8]);
                    if (store.insert(list.words.data() + k * words, list.hashes[k]).second) shard.parent.push_back(list.parents[k]);
                }
            }
        },
        shard.store);
}

bool Reachability::take_stock(size_t count) {
    for (size_t c = 0; c < count; ++c) {
        Chunk& chunk = chunks_[c];
        expanded += chunk.again ? 0 : chunk.end - chunk.begin;
        transitions += chunk.transitions;
        near_ties += chunk.near_ties;
        for (int k = 0; k < 4; ++k) ends[k] += chunk.ends[k];
        ties_.insert(ties_.end(), chunk.ties.begin(), chunk.ties.end());
        if (chunk.bad != NOBODY) {
            bad_state_ = chunk.bad;
            reached = doubting_ ? Reached::DOUBTFUL : Reached::UNSAFE;
            return false;
        }
        if (chunk.broke) {
            status = Status::FAULT;
            fault = chunk.fault;
            policy_broken = chunk.by_policy;
            std::vector<uint64_t> room(policy.program->words);
            const uint64_t* where = state(chunk.faulty, room.data());
            faulty.assign(where, where + policy.program->words);
            return false;
        }
    }
    for (uint32_t s = 0; s < SHARDS; ++s)
        if (shard_size(s) + (size_t(1) << 20) > (size_t(1) << LOCAL_BITS)) {
            status = Status::MEMORY;
            return false;
        }
    return true;
}

void Reachability::close(unsigned threads, Limits& limits) {
    if (!policy.threads) threads = 1;
    threads = std::clamp(threads, 1u, 64u);
    std::vector<std::unique_ptr<Worker>> workers;
    for (unsigned k = 0; k < threads; ++k) workers.push_back(std::make_unique<Worker>(*this));
    status = Status::DONE;
    while (reached == Reached::OPEN) {
        status = limits.poll(bytes(), expanded, size());
        if (status != Status::DONE) return;
        const size_t count = plan(threads * policy.patience(CHUNKS_PER_THREAD));
        if (count == 0) {
            reached = Reached::CLOSED;
            return;
        }
        share_tasks(threads, count, [&](unsigned thread, size_t c) { workers[thread]->run(chunks_[c]); });
        if (!take_stock(count)) return;
        share_tasks(threads, SHARDS, [&](unsigned, size_t s) { insert(uint32_t(s), count); });
    }
}

void Reachability::witness(std::vector<uint64_t>& states, std::vector<int32_t>& labels, int64_t& tie) const {
    tie = -1;
    if (bad_state_ == NOBODY) return;
    std::vector<uint32_t> chain{bad_state_};
    for (uint32_t up; (up = shards_[shard_of(chain.back())].parent[local_of(chain.back())]) != NOBODY;) chain.push_back(up);
    std::reverse(chain.begin(), chain.end());
    const size_t words = policy.program->words;
    std::vector<uint64_t> here_room(words), there_room(words);
    Worker worker(*this);
    for (size_t k = 0; k < chain.size(); ++k) {
        const uint64_t* here = state(chain[k], here_room.data());
        states.insert(states.end(), here, here + words);
        if (k + 1 == chain.size()) break;
        const uint64_t* there = state(chain[k + 1], there_room.data());
        int32_t label = STUCK;
        bool sure = false;
        worker.steps(chain[k], [&](const uint64_t* target, int32_t with, bool reference) {
            if (!std::equal(target, target + words, there) || (label != STUCK && (sure || !reference))) return;
            label = with;
            sure = reference;
        });
        if (!sure && tie < 0) tie = int64_t(k);
        labels.push_back(label);
    }
    if (tie < 0 && reached == Reached::DOUBTFUL) tie = int64_t(chain.size()) - 1;  // the last state itself: it may be stuck there
}

}  // namespace polvet
