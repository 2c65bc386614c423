// lazy by several threads at once: one fixpoint over all questions, each state looked after by one thread.
//
// A thread claims every state it visits on the board. Where it comes to a state of another thread it goes no further: it
// asks to be told should that state be killed. A killed state is published at once and told to those who asked; they move
// their watchers on. A thread with nothing to do takes the next question, or states that a busy thread gives away. When no
// thread has work and no message is under way, every claimed state that was not killed is safe.
//
// A promise is a state that stays visited: others asked about it, or a closed question rests on it. What was visited for a
// question that turned out unsafe, or for the sake of abandoned actions, is released unless promised.
//
// SOUND    a promised state holds an action whose outcomes are promised by their owners, or known to be safe. Owners cannot
//          release what was asked about (Board::release), and every kill reaches those who asked (Board::kill): both are
//          decided under the lock of the state's shard. So at the end the promised states are a closed safe policy.
#pragma once
#include <condition_variable>
#include <mutex>
#include <utility>

#include "decide/lazy.h"

namespace polvet {

// Messages between the threads, and the knowledge of when all work is done.
class Party {
public:
    enum Kind : uint64_t { KILLED, VISIT };

    Party(unsigned size, std::atomic<Status>& stop) : inboxes_(size), stop_(stop) {}

    void send(unsigned to, Kind kind, const uint64_t* states, size_t count, size_t words) {
        std::lock_guard lock(mutex_);
        Inbox& inbox = inboxes_[to];
        for (size_t k = 0; k < count; ++k) {
            inbox.mail.push_back(kind);
            inbox.mail.insert(inbox.mail.end(), states + k * words, states + (k + 1) * words);
        }
        inbox.full.store(true, std::memory_order_release);
        if (inbox.waits) {
            inbox.waits = false;
            --idle_;
            changed_.notify_all();
        }
    }
    bool has_mail(unsigned me) const { return inboxes_[me].full.load(std::memory_order_acquire); }
    std::vector<uint64_t> take(unsigned me) {
        std::lock_guard lock(mutex_);
        inboxes_[me].full = false;
        return std::exchange(inboxes_[me].mail, {});
    }
    // Sleep until there is mail; false: everything is done, or a limit was reached.
    bool wait(unsigned me) {
        std::unique_lock lock(mutex_);
        Inbox& inbox = inboxes_[me];
        if (!inbox.mail.empty()) return true;
        inbox.waits = true;
        if (++idle_ == inboxes_.size()) {
            finished_ = true;
            changed_.notify_all();
        }
        while (!finished_ && inbox.waits) {
            if (stop_.load(std::memory_order_relaxed) != Status::DONE) return false;
            changed_.wait_for(lock, std::chrono::milliseconds(5));
        }
        return !finished_;
    }
    bool someone_waits() const { return idle_.load(std::memory_order_relaxed) > 0; }
    unsigned waiting() {  // a thread that waits, or as many as there are
        std::lock_guard lock(mutex_);
        unsigned k = 0;
        while (k < inboxes_.size() && !inboxes_[k].waits) ++k;
        return k;
    }
    size_t size() const { return inboxes_.size(); }
    bool finished() const { return finished_; }

private:
    struct Inbox {
        std::vector<uint64_t> mail;
        std::atomic<bool> full{false};
        bool waits = false;
    };
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Inbox> inboxes_;
    std::atomic<size_t> idle_{0};
    std::atomic<Status>& stop_;
    std::atomic<bool> finished_{false};
};

struct Question {
    size_t number;
    uint32_t state;
    uint64_t looks, nanoseconds;
};

template <class Game> class LazyTogether : public Lazy<Game> {
    using Base = Lazy<Game>;
    using Base::nodes_, Base::queue_, Base::trail_, Base::query_, Base::head_, Base::opened_, Base::turn_, Base::abandoned_, Base::start_;
    using Base::PROMISED;

public:
    using Base::Base;

    // Work until all threads are done; `next` names a question's number and state, none left: null. Limits are thrown as Stop.
    void explore(Party& party, Board& board, unsigned me, const std::function<const uint64_t*(size_t&)>& next,
                 std::vector<Question>& asked) {
        Game& game = this->game_;
        party_ = &party;
        board_ = &board;
        me_ = me;
        promised_.clear();
        moved_.clear();
        places_.clear();
        trail_.clear();
        queue_.clear();
        start_ = NONE;
        this->fit();
        close();
        auto begun = std::chrono::steady_clock::now();
        uint64_t looks = game.looks;
        for (;;) {
            read_mail();
            drain();
            if (!asked.empty()) {
                const auto now = std::chrono::steady_clock::now();
                asked.back().looks += game.looks - looks;
                asked.back().nanoseconds += uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(now - begun).count());
                begun = now;
                looks = game.looks;
            }
            close();
            size_t number = 0;
            if (const uint64_t* state = next(number)) {
                const uint32_t s = game.add(state);
                this->fit();
                asked.push_back({number, s, 0, 0});
                if (game.known(s) == UNDECIDED && !this->is_visited(s)) {
                    start_ = s;
                    queue_.push_back(s);
                }
            } else {
                if (!party.wait(me)) break;
                begun = std::chrono::steady_clock::now();
            }
        }
        party_ = nullptr;
        if (!party.finished()) throw Stop{Status::DONE};
        for (uint32_t s : promised_)
            if (game.known(s) == UNDECIDED) game.learn(s, SAFE);
    }

    size_t bytes() const override { return Base::bytes() + (promised_.capacity() + moved_.capacity() + places_.capacity()) * 4; }

protected:
    // What was explored together rests on watchers, which starting over would drop.
    bool may_start_over() const override { return !party_ && promised_.empty() && Base::may_start_over(); }

private:
    static constexpr size_t WORTH_GIVING = 16, BETWEEN_GIFTS = 64;

    void drain() {
        Game& game = this->game_;
        while (head_ < queue_.size()) {
            if (party_->has_mail(me_)) read_mail();
            if (start_ != NONE && game.known(start_) == UNSAFE) {
                start_ = NONE;
                restart();
                continue;
            }
            if (abandoned_ && opened_ >= trail_.size()) {
                restart();
                continue;
            }
            if (party_->someone_waits() && queue_.size() - head_ >= WORTH_GIVING && ++patience_ >= BETWEEN_GIFTS) give();
            const uint32_t s = this->take();
            if (game.known(s) == UNDECIDED && !this->is_visited(s) && this->is_needed(s) && claim(s, me_)) this->visit(s);
        }
    }

    // Whether the state is this thread's to visit. One that is another's counts as visited from now on.
    bool claim(uint32_t s, unsigned owner) {
        const Board::Claim found = board_->claim(this->game_.state(s), owner, me_);
        if (places_.size() <= s) places_.resize(this->game_.size(), Board::NOWHERE);
        places_[s] = found.place;
        if (found.known == UNSAFE) {
            this->kill(s);
            return false;
        }
        if (found.known == SAFE) {
            this->game_.learn(s, SAFE);
            return false;
        }
        if (found.owner == me_) return true;
        nodes_[s].visited = PROMISED;
        promised_.push_back(s);
        if (owner != me_ && found.given) gifts_.insert(gifts_.end(), this->game_.state(s), this->game_.state(s) + this->game_.words());
        return false;
    }

    // Half of what waits here goes to a thread that has nothing to do.
    void give() {
        const unsigned to = party_->waiting();
        patience_ = 0;
        if (to == party_->size()) return;
        gifts_.clear();
        for (size_t left = (queue_.size() - head_) / 2; left > 0 && head_ < queue_.size(); --left) {
            const uint32_t s = queue_[head_++];
            if (s == start_) queue_.push_back(s);
            else if (this->game_.known(s) == UNDECIDED && !this->is_visited(s) && this->is_needed(s) && claim(s, to)) this->visit(s);
        }
        if (!gifts_.empty()) party_->send(to, Party::VISIT, gifts_.data(), gifts_.size() / this->game_.words(), this->game_.words());
    }

    void read_mail() {
        Game& game = this->game_;
        if (!party_->has_mail(me_)) return;
        const std::vector<uint64_t> mail = party_->take(me_);
        for (size_t k = 0; k < mail.size(); k += 1 + game.words()) {
            const uint32_t s = game.add(mail.data() + k + 1);
            this->fit();
            if (game.known(s) != UNDECIDED) continue;
            if (mail[k] == Party::KILLED) this->kill(s);
            else if (!this->is_visited(s)) this->visit(s);
        }
    }

    // Nothing is left to visit: what is on the trail stays.
    void close() {
        for (uint32_t s : trail_)
            if (this->game_.known(s) == UNDECIDED) {
                nodes_[s].visited = PROMISED;
                promised_.push_back(s);
            }
        start_ = NONE;
        moved_.clear();
        begin();
    }

    // Visit again what others asked about, what promised states have moved to, and the question if it is open.
    void restart() {
        Game& game = this->game_;
        std::vector<uint32_t> kept;
        for (uint32_t s : trail_)
            if (game.known(s) == UNDECIDED && !board_->release(game.state(s), place_of(s))) kept.push_back(s);
        begin();
        for (uint32_t s : kept) this->visit(s);
        for (uint32_t s : moved_)
            if (game.known(s) == UNDECIDED) this->push_outcomes(s);
        if (start_ != NONE && !this->is_visited(start_)) queue_.push_back(start_);
    }

    void begin() {
        ++query_;
        ++this->passes;
        queue_.clear();
        trail_.clear();
        head_ = opened_ = turn_ = 0;
        abandoned_ = false;
    }

    uint32_t place_of(uint32_t s) const { return s < places_.size() ? places_[s] : Board::NOWHERE; }

    void was_killed(uint32_t s) override {
        if (!party_) return;
        const uint64_t* state = this->game_.state(s);
        const uint32_t asking = board_->kill(state, place_of(s)) & ~(1u << me_);
        for (unsigned k = 0; asking >> k; ++k)
            if (asking >> k & 1) party_->send(k, Party::KILLED, state, 1, this->game_.words());
    }
    void has_moved(uint32_t s) override {
        if (party_ && nodes_[s].visited == PROMISED) moved_.push_back(s);
    }

    Party* party_ = nullptr;
    Board* board_ = nullptr;
    unsigned me_ = 0;
    size_t patience_ = 0;
    std::vector<uint32_t> promised_, moved_;
    std::vector<uint32_t> places_;  // where claimed states stand on the board
    std::vector<uint64_t> gifts_;
};

}  // namespace polvet
