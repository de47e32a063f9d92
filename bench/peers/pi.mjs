// Does one job with pi's own SessionManager and prints the sample as JSON.
//
//     node pi.mjs <session-manager.js> '<job>' <folder>

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [module, jobJson, folder] = process.argv.slice(2);
const { SessionManager } = await import(pathToFileURL(module).href);
const job = JSON.parse(jobJson);
const TEXT = "The quick brown fox jumps over the lazy dog, and then over it again; ".repeat(15).slice(0, 1024);
const sample = { operations: 1, wall_s: 0, cpu_s: 0, latencies_s: [] };

const user = () => ({ role: "user", content: TEXT, timestamp: Date.now() });
const assistant = () => ({
    role: "assistant", content: [{ type: "text", text: TEXT }], timestamp: Date.now(), stopReason: "stop",
    api: "none", provider: "none", model: "none",
    usage: {
        input: 1, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: 2,
        cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
    },
});

async function timed(work) {
    const cpu = process.cpuUsage();
    const began = process.hrtime.bigint();
    const result = await work();
    sample.wall_s = Number(process.hrtime.bigint() - began) / 1e9;
    const used = process.cpuUsage(cpu);
    sample.cpu_s = (used.user + used.system) / 1e6;
    return result;
}

function create(where) {
    mkdirSync(where, { recursive: true });
    const session = SessionManager.create("/work", where);
    session.appendMessage(user());
    session.appendMessage(assistant()); // pi writes nothing before the first answer
    return session;
}

const jobs = {
    async Appends() {
        const sessions = Array.from({ length: job.sessions }, (_, n) => create(join(folder, String(n))));
        let count = 0;
        await timed(() => {
            const until = Date.now() + job.seconds_max * 1000;
            for (let call = 0; call < job.calls * job.batch; call++) {
                for (const session of sessions) {
                    const began = process.hrtime.bigint();
                    session.appendMessage(user());
                    sample.latencies_s.push(Number(process.hrtime.bigint() - began) / 1e9);
                    count++;
                }
                if (Date.now() > until) break;
            }
        });
        sample.operations = count;
    },
    async Opens() {
        const session = await timed(() => {
            const opened = SessionManager.open(job.file);
            if (job.context) opened.buildSessionContext();
            return opened;
        });
        if (session.getEntries().length !== job.entries) throw new Error("pi did not open the whole file");
    },
    async Reads() {
        const messages = await timed(() => SessionManager.open(job.file).buildSessionContext().messages);
        if (messages.length !== job.entries) throw new Error("pi did not read the whole file");
    },
    async Contexts() {
        const session = SessionManager.open(job.file);
        if (job.again) session.buildSessionContext();
        await timed(() => session.buildSessionContext());
    },
    async Branches() {
        writeFileSync(join(folder, "copy.jsonl"), readFileSync(job.file));
        const session = SessionManager.open(join(folder, "copy.jsonl"));
        const middle = session.getBranch()[Math.floor(job.entries / 2)].id;
        sample.operations = job.count;
        await timed(() => {
            for (let n = 0; n < job.count; n++) {
                session.branch(middle);
                session.appendMessage(user());
            }
        });
    },
    async Lists() {
        const list = () => SessionManager.list("/work", job.file);
        if (job.warm) await list();
        let listed = [];
        await timed(async () => {
            const until = Date.now() + job.seconds_max * 1000;
            do {
                const began = process.hrtime.bigint();
                listed = await list();
                sample.latencies_s.push(Number(process.hrtime.bigint() - began) / 1e9);
            } while (sample.latencies_s.length < job.calls && Date.now() < until);
        });
        sample.operations = sample.latencies_s.length;
        if (listed.length !== job.sessions)
            throw new Error(`pi listed ${listed.length} sessions instead of ${job.sessions}`);
    },
    async MakeLists() {
        mkdirSync(folder, { recursive: true });
        for (let n = 0; n < job.sessions; n++) {
            const session = create(folder);
            for (let m = 2; m < job.entries; m++) session.appendMessage(m % 2 ? assistant() : user());
        }
    },
};

const log = console.log;
console.log = () => {};
await jobs[job.type]();
sample.peak_bytes = process.resourceUsage().maxRSS * 1024;
log(JSON.stringify(sample));
