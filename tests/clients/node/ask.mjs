// Asks by the DNS libraries of Node.js; each line says who asked how and what came back. A fault of any ends the program.
import { createRequire } from 'node:module';
import { Agent, fetch } from 'undici';
import { query } from 'dns-query';
import { DNSoverHTTPS, DNSoverTLS } from 'dohdec';

const dohjs = createRequire(import.meta.url)('dohjs');
const { HTTPS, NAME, TLS } = process.env;
const url = `https://localhost:${HTTPS}/dns-query`;
const name = 'www.example.test';
const data = (answer) => answer.answers.map((record) => record.data).join(' ');

for (const preferPost of [false, true]) {
  const resolver = new DNSoverHTTPS({ url, preferPost });
  console.log(`dohdec post=${preferPost}`, data(await resolver.lookup(name, { rrtype: 'A', json: false, decode: true })));
  resolver.close?.();
}

const overTls = new DNSoverTLS({ host: 'localhost', port: Number(TLS), servername: NAME });
console.log('dohdec tls', data(await overTls.lookup(name, { rrtype: 'A' })));
await overTls.close();

for (const method of ['GET', 'POST']) {
  console.log(`dohjs ${method}`, data(await new dohjs.DohResolver(url).query(name, 'A', method)));
}

console.log('dns-query', data(await query({ question: { type: 'A', name } }, { endpoints: [url] })));

// The question for www.example.test, with ID 0.
const labels = name.split('.').flatMap((label) => [label.length, ...Buffer.from(label)]);
const message = Buffer.from([0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, ...labels, 0, 0, 1, 0, 1]);
const dispatcher = new Agent({ allowH2: true });
const headers = { 'content-type': 'application/dns-message' };
const response = await fetch(url, { method: 'POST', body: message, headers, dispatcher });
const body = Buffer.from(await response.arrayBuffer());
console.log('undici', response.status, response.headers.get('content-type'), [...body.subarray(-4)].join('.'));
await dispatcher.close();
