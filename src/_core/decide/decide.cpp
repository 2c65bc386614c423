// Solvers over both kinds of games, and the batch that shares questions out to threads.
#include "decide/decide.h"

#include <time.h>
#include <numeric>

#include <stdexcept>

#include "decide/ipi.h"
#include "decide/lazy.h"
#include "decide/search.h"
#include "decide/tarjan.h"
#include "decide/together.h"
#include "decide/values.h"
#include "store/threads.h"

namespace polvet {

namespace {

template <class Game> std::unique_ptr<Algorithm<Game>> make_algorithm(Game& game, const SolverOptions& options) {
    const std::string& name = options.algorithm;
    if (name == "lazy" && options.board) return std::make_unique<LazyTogether<Game>>(game, options.patience);
    if (name == "lazy") return std::make_unique<Lazy<Game>>(game, options.patience);
    if (name == "ipi") return std::make_unique<ImprovedPolicyIteration<Game>>(game);
    if (name == "npi") return std::make_unique<NaivePolicyIteration<Game>>(game);
    if (name == "tarjan") return std::make_unique<TarjanSafe<Game>>(game, options.radius);
    if (name == "propagate") return std::make_unique<Propagate<Game>>(game);
    if (name == "vi") return std::make_unique<ValueIteration<Game>>(game, false);
    if (name == "tvi") return std::make_unique<ValueIteration<Game>>(game, true);
    if (name == "lao") return std::make_unique<HeuristicSearch<Game>>(game);
    if (name == "lrtdp") return std::make_unique<LabelledTrials<Game>>(game, options.seed);
    throw std::invalid_argument("unknown algorithm '" + name + "'");
}

template <class Game> class GameSolver : public Solver {
public:
    template <class... Arguments>
    GameSolver(const SolverOptions& options, Arguments&&... arguments)
        : game_(std::forward<Arguments>(arguments)...), share_(options.share), options_(options) {
        game_.order = options.order;
        game_.seed = options.seed;
        game_.preferred = options.preferred;
        game_.board = options.board.get();
        restart();
    }

    Answer decide(const uint64_t* state, Watch& watch) override {
        if (!share_) {
            game_.forget();
            algorithm_->forget();
        }
        game_.watch = &watch;
        Answer answer;
        const uint64_t looks = game_.looks, passes = algorithm_->passes;
        const auto begun = std::chrono::steady_clock::now();
        for (int attempt = 0;; ++attempt) {
            const bool remembers = game_.size() > 0;
            try {
                const uint32_t s = game_.add(state);
                const bool unsafe = algorithm_->is_unsafe(s);
                answer.known = unsafe ? UNSAFE : algorithm_->cut() ? UNDECIDED : SAFE;
                answer.passes = algorithm_->passes - passes;
                publish();
            } catch (const Stop& stop) {
                // SOUND: a search stopped half-way has promises open; nothing of it is used again.
                restart();
                if (stop.status == Status::MEMORY && share_ && make_room(remembers, attempt)) continue;
                answer.status = stop.status;
            }
            break;
        }
        answer.looks = game_.looks - looks;
        answer.nanoseconds =
            uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begun).count());
        return answer;
    }

    bool can_join() const override { return share_ && options_.board && dynamic_cast<LazyTogether<Game>*>(algorithm_.get()); }

    Status join(Party& party, unsigned me, const std::function<const uint64_t*(size_t&)>& next, Watch& watch, Batch& batch) override {
        auto& lazy = dynamic_cast<LazyTogether<Game>&>(*algorithm_);
        game_.watch = &watch;
        game_.board = nullptr;  // what others know is asked for where a state is claimed
        std::vector<Question> asked;
        Status status = Status::DONE;
        try {
            lazy.explore(party, *options_.board, me, next, asked);
        } catch (const Stop& stop) { status = stop.status; }
        game_.board = options_.board.get();
        for (const Question& one : asked) {
            Answer& answer = batch.answers[one.number];
            answer.known = game_.known(one.state);
            answer.looks = one.looks;
            answer.nanoseconds = one.nanoseconds;
        }
        return status;
    }

    void restart() override {
        game_.release();
        game_.order = options_.order;
        algorithm_.reset();
        algorithm_ = make_algorithm(game_, options_);
        game_.extra_bytes = [this] { return algorithm_->bytes() + (options_.board ? options_.board->bytes() : 0); };
    }

    SafePolicy safe_policy(const uint64_t* states, size_t count, Watch& watch) override {
        Lazy<Game>& lazy = prover();
        game_.watch = &watch;
        std::vector<uint32_t> pending;
        std::vector<uint8_t> seen;
        SafePolicy result;
        const auto push = [&](uint32_t s) {
            seen.resize(game_.size(), 0);
            if (!seen[s]) {
                seen[s] = 1;
                pending.push_back(s);
            }
        };
        for (size_t k = 0; k < count; ++k) {
            const uint32_t s = proved(states + k * game_.words(), SAFE);
            push(s);
        }
        for (size_t head = 0; head < pending.size(); ++head) {
            const uint32_t s = pending[head], action = lazy.action(s);
            result.states.insert(result.states.end(), game_.state(s), game_.state(s) + game_.words());
            result.labels.push_back(action == NONE ? ENDED : game_.label(s, action));
            if (action == NONE) continue;
            const Outcomes outcomes = game_.outcomes(s, action);
            for (uint32_t i = outcomes.begin; i < outcomes.end; ++i) push(game_.target(i));
        }
        return result;
    }

    UnsafeRank unsafe_rank(const uint64_t* states, size_t count, Watch& watch) override {
        Lazy<Game>& lazy = prover();
        game_.watch = &watch;
        std::vector<uint32_t> needed;
        std::vector<uint32_t> place;  // in the result, 1 + index; 0: not needed so far
        const auto push = [&](uint32_t s) {
            place.resize(game_.size(), 0);
            if (!place[s]) {
                place[s] = 1;
                needed.push_back(s);
            }
        };
        // Of each action the outcome that was killed first: it was dead when s was killed.
        const auto witness_of = [&](uint32_t s, uint32_t k) {
            const Outcomes outcomes = game_.outcomes(s, k);
            uint32_t best = NONE;
            for (uint32_t i = outcomes.begin; i < outcomes.end; ++i)
                if (const uint32_t t = game_.target(i); game_.known(t) == UNSAFE && (best == NONE || lazy.rank(t) < lazy.rank(best)))
                    best = t;
            return best;
        };
        for (size_t k = 0; k < count; ++k) push(proved(states + k * game_.words(), UNSAFE));
        for (size_t head = 0; head < needed.size(); ++head)
            if (lazy.rank(needed[head]) > 0)
                for (uint32_t k = 0; k < game_.actions(needed[head]); ++k) push(witness_of(needed[head], k));
        std::stable_sort(needed.begin(), needed.end(), [&](uint32_t x, uint32_t y) { return lazy.rank(x) < lazy.rank(y); });
        UnsafeRank result;
        for (uint32_t s : needed) {
            place[s] = uint32_t(result.rank.size());
            result.states.insert(result.states.end(), game_.state(s), game_.state(s) + game_.words());
            uint32_t level = 0;
            if (lazy.rank(s) > 0)
                for (uint32_t k = 0; k < game_.actions(s); ++k) {
                    const uint32_t witness = place[witness_of(s, k)];
                    result.label.push_back(game_.label(s, k));
                    result.witness.push_back(witness);
                    level = std::max(level, result.rank[witness] + 1);
                }
            result.pair_start.push_back(uint32_t(result.label.size()));
            result.rank.push_back(level);
        }
        return result;
    }

    Outlook outlook(const uint64_t* states, size_t count, Watch& watch) override {
        game_.watch = &watch;
        for (int attempt = 0;; ++attempt) {
            const bool remembers = game_.size() > 0;
            try {
                return look_around(states, count);
            } catch (const Stop& stop) {
                restart();
                if (stop.status != Status::MEMORY || !make_room(remembers, attempt)) throw;
            }
        }
    }

    void foresee(std::shared_ptr<const Foreseen> told) override { game_.foreseen.push_back(std::move(told)); }
    uint64_t peak() const override { return std::max<uint64_t>(game_.peak, held()); }
    uint64_t held() const override { return game_.bytes() + algorithm_->bytes(); }
    uint64_t known_states() const override { return game_.size(); }

private:
    // Whether it is worth trying again when memory ran out: once without what this solver remembered, once without the board.
    bool make_room(bool remembered, int attempt) {
        if (attempt == 0 && remembered) return true;
        if (attempt > 1 || !options_.board || options_.board->bytes() == 0) return false;
        options_.board->clear();
        return true;
    }

    Outlook look_around(const uint64_t* states, size_t count) {
        Outlook result;
        std::vector<uint32_t> order;
        for (size_t i = 0; i < count; ++i) {
            const uint32_t s = game_.add(states + i * game_.words());
            order.resize(game_.ends_runs(s) ? 0 : game_.actions(s));
            std::iota(order.begin(), order.end(), 0);
            std::stable_sort(order.begin(), order.end(), [&](uint32_t x, uint32_t y) { return game_.label(s, x) < game_.label(s, y); });
            for (uint32_t k : order) {
                game_.look();
                const Outcomes outcomes = game_.outcomes(s, k);
                for (uint32_t j = outcomes.begin; j < outcomes.end; ++j) {
                    const uint64_t* state = game_.state(game_.target(j));
                    result.outcomes.insert(result.outcomes.end(), state, state + game_.words());
                }
                result.label.push_back(game_.label(s, k));
                result.outcome_start.push_back(uint32_t(result.outcomes.size() / game_.words()));
            }
            result.action_start.push_back(uint32_t(result.label.size()));
        }
        return result;
    }

    void publish() {
        for (uint32_t s : game_.learned) options_.board->publish(game_.state(s), game_.known(s));
        game_.learned.clear();
    }

    Lazy<Game>& lazy() {
        auto* lazy = dynamic_cast<Lazy<Game>*>(algorithm_.get());
        if (!lazy || !share_) throw std::invalid_argument("evidence needs the algorithm lazy with sharing");
        return *lazy;
    }

    Lazy<Game>& prover() {
        // SOUND: a board says what is true, not why.
        if (options_.board) throw std::invalid_argument("evidence needs a single thread");
        // SOUND: what a smaller game won has no reason here. A safe policy enters no lost state, so that it needs none; ranks end in
        // lost states, and who asked for them says why these are lost.
        for (const auto& told : game_.foreseen)
            if (told->wins) throw std::invalid_argument("evidence needs a search without smaller games");
        return lazy();
    }

    bool ask(uint32_t s) {
        try {
            return algorithm_->is_unsafe(s);
        } catch (const Stop&) {
            restart();
            throw;
        }
    }

    uint32_t proved(const uint64_t* state, Known wanted) {
        const uint32_t s = game_.add(state);
        if ((ask(s) ? UNSAFE : SAFE) != wanted)
            throw std::invalid_argument(wanted == SAFE ? "a state to be proved safe is unsafe" : "a state to be proved unsafe is safe");
        return s;
    }

    Game game_;
    std::unique_ptr<Algorithm<Game>> algorithm_;
    bool share_;
    SolverOptions options_;
};

}  // namespace

std::unique_ptr<Solver> make_solver(std::shared_ptr<const Program> program, int32_t fail, int32_t goal, const SolverOptions& options) {
    switch (program->words) {
    case 1: return std::make_unique<GameSolver<ModelGame<1>>>(options, program, fail, goal);
    case 2: return std::make_unique<GameSolver<ModelGame<2>>>(options, program, fail, goal);
    default: return std::make_unique<GameSolver<ModelGame<0>>>(options, program, fail, goal);
    }
}

std::unique_ptr<Solver> make_solver(std::shared_ptr<const TableGame::Table> table, const SolverOptions& options) {
    return std::make_unique<GameSolver<TableGame>>(options, table);
}

namespace {

// The threads of a batch: each has its share of the memory, and says how long it was busy.
struct BatchCrew : Crew {
    Limits& limits;
    std::atomic<size_t> done{0};
    std::vector<double> busy{};

    explicit BatchCrew(Limits& all) : limits(all) {}

    static double cpu_seconds() {
        timespec now;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
    }

    // Run work(k, watch) on every thread k.
    template <class Work> void run(size_t threads, const Work& work) {
        const uint64_t share = limits.bytes / threads;
        busy.assign(threads, 0);
        const auto watched = [&](size_t k) {
            Watch watch{[&](uint64_t bytes, uint64_t known) {
                if (known > limits.states) return Status::STATES;
                if (bytes > share) return Status::MEMORY;
                return stop.load(std::memory_order_relaxed);
            }};
            work(k, watch);
            busy[k] = cpu_seconds();
        };
        Crew::run(threads, watched, [&] { return limits.poll(0, done, 0); });
    }
};

Batch decide_here(Solver& solver, const uint64_t* states, size_t count, uint32_t words, Limits& limits) {
    Batch batch;
    batch.answers.resize(count);
    const double begun = BatchCrew::cpu_seconds();
    size_t done = 0;
    Watch watch{[&](uint64_t bytes, uint64_t known) {
        if (known > limits.states) return Status::STATES;
        if (bytes > limits.bytes) return Status::MEMORY;
        return limits.poll(0, done, 0);
    }};
    for (; done < count; ++done) {
        if (done % 256 == 255 && batch.status == Status::DONE) batch.status = limits.poll(0, done, 0);
        if (batch.status != Status::DONE) {
            batch.answers[done].status = batch.status;
            continue;
        }
        batch.answers[done] = solver.decide(states + done * words, watch);
        const Status status = batch.answers[done].status;
        if (status == Status::TIME || status == Status::INTERRUPTED) batch.status = status;
    }
    batch.busy.assign(1, BatchCrew::cpu_seconds() - begun);
    return batch;
}

using Solvers = std::vector<std::unique_ptr<Solver>>;

// One exploration of all questions; answers that are still open when a limit is reached carry its status.
Batch decide_together(Solvers& solvers, Board& board, const uint64_t* states, size_t count, uint32_t words, Limits& limits) {
    Batch batch;
    batch.answers.resize(count);
    const size_t threads = std::min<size_t>({solvers.size(), count, Board::MOST_OWNERS});
    BatchCrew crew(limits);
    Party party(unsigned(threads), crew.stop);
    std::atomic<size_t> next{0};
    try {
        crew.run(threads, [&](size_t k, Watch& watch) {
            const Status status = solvers[k]->join(
                party, unsigned(k),
                [&](size_t& number) -> const uint64_t* {
                    number = next.fetch_add(1, std::memory_order_relaxed);
                    crew.done.store(std::min(number, count), std::memory_order_relaxed);
                    return number < count ? states + number * words : nullptr;
                },
                watch, batch);
            Status none = Status::DONE;
            if (status != Status::DONE) crew.stop.compare_exchange_strong(none, status);
        });
    } catch (...) {
        for (auto& solver : solvers) solver->restart();
        board.clear();
        throw;
    }
    batch.status = crew.stop;
    batch.busy = crew.busy;
    if (batch.status == Status::DONE) {
        board.settle();
        return batch;
    }
    // SOUND: promises are open; nothing but facts is used again.
    for (auto& solver : solvers) solver->restart();
    board.keep_facts();
    if (board.bytes() > limits.bytes / (2 * threads)) board.clear();
    for (Answer& answer : batch.answers)
        if (answer.known == UNDECIDED) answer.status = batch.status;
    return batch;
}

// Every question for itself, by whichever thread is free.
Batch decide_apart(Solvers& solvers, const uint64_t* states, const std::vector<size_t>& open, uint32_t words, Limits& limits, Batch batch) {
    const size_t count = open.size(), threads = std::min(solvers.size(), count),
                 portion = std::clamp<size_t>(count / (threads * 8), 1, 256);
    BatchCrew crew(limits);
    std::atomic<size_t> next{0};
    crew.run(threads, [&](size_t k, Watch& watch) {
        for (size_t begin; (begin = next.fetch_add(portion)) < count;) {
            const size_t end = std::min(begin + portion, count);
            for (size_t i = begin; i < end; ++i) {
                Answer& answer = batch.answers[open[i]];
                const Status now = crew.stop.load(std::memory_order_relaxed);
                if (now != Status::DONE) answer.status = now;
                else answer = solvers[k]->decide(states + open[i] * words, watch);
            }
            crew.done += end - begin;
        }
    });
    batch.status = crew.stop;
    batch.busy = crew.busy;
    return batch;
}

}  // namespace

Batch decide_all(Solvers& solvers, Board* board, const uint64_t* states, size_t count, uint32_t words, Limits& limits) {
    if (solvers.size() == 1 || count <= 1) return decide_here(*solvers[0], states, count, words, limits);
    Batch batch;
    batch.answers.resize(count);
    for (int attempt = 0; board && !board->crowded && solvers[0]->can_join(); ++attempt) {
        const bool remembers = std::any_of(solvers.begin(), solvers.end(), [](const auto& one) { return one->known_states() > 0; });
        batch = decide_together(solvers, *board, states, count, words, limits);
        if (batch.status != Status::MEMORY && batch.status != Status::STATES) return batch;
        board->crowded = !remembers || attempt > 0;  // else once more, with all memory
    }
    std::vector<size_t> open;
    for (size_t k = 0; k < count; ++k)
        if (batch.answers[k].known == UNDECIDED) open.push_back(k);
    if (open.empty()) {
        batch.status = Status::DONE;
        return batch;
    }
    return decide_apart(solvers, states, open, words, limits, std::move(batch));
}

}  // namespace polvet
