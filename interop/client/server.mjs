// The TypeScript server of the interop tests: the official SDK on Node, with the lines and the admin
// endpoint of server/main.go. With the argument "stdio" it serves its standard streams.
import http from 'node:http';
import { McpServer, createMcpHandler } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { toNodeHandler } from '@modelcontextprotocol/node';

const capabilities = { tools: { listChanged: true }, resources: { listChanged: true, subscribe: true } };
const make = () => new McpServer({ name: 'typescript', version: '1' }, { capabilities });

if (process.argv[2] === 'stdio') {
  const server = { current: undefined };
  serveStdio(() => (server.current = make()));
  setInterval(() => server.current?.sendToolListChanged(), 100);
} else {
  const mcp = createMcpHandler(make, { keepAliveMs: 1000 });
  const handle = toNodeHandler(mcp);
  const main = http.createServer((req, res) => void handle(req, res));
  const admin = http.createServer((req, res) => {
    const url = new URL(req.url, 'http://admin');
    if (url.pathname === '/publish') {
      if (url.searchParams.get('kind') === 'updated') mcp.notify.resourceUpdated(url.searchParams.get('uri'));
      else mcp.notify.toolsChanged();
    } else if (url.pathname === '/end') void mcp.close();
    else if (url.pathname === '/cut') main.closeAllConnections();
    res.end();
  });
  main.listen(0, '127.0.0.1', () => {
    console.log(`listening on http://127.0.0.1:${main.address().port}/mcp`);
    admin.listen(0, '127.0.0.1', () => console.log(`admin on http://127.0.0.1:${admin.address().port}`));
  });
}
